package httpguard

import (
	"io"
	"net/http"
)

// recorder is a ResponseWriter that remembers the status.
type recorder struct {
	http.ResponseWriter
	status int // 0 before the first byte
}

// record wraps w. The writer that it returns has the optional interfaces that w has.
func record(w http.ResponseWriter) (*recorder, http.ResponseWriter) {
	rec := &recorder{ResponseWriter: w}
	flusher, flushes := w.(http.Flusher)
	hijacker, hijacks := w.(http.Hijacker)
	switch {
	case flushes && hijacks:
		return rec, struct {
			*recorder
			http.Flusher
			http.Hijacker
		}{rec, flusher, hijacker}
	case flushes:
		return rec, struct {
			*recorder
			http.Flusher
		}{rec, flusher}
	case hijacks:
		return rec, struct {
			*recorder
			http.Hijacker
		}{rec, hijacker}
	}
	return rec, rec
}

// WriteHeader notes the first status that is final.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implies a status of 200.
func (r *recorder) Write(p []byte) (int, error) {
	r.written()
	return r.ResponseWriter.Write(p)
}

// ReadFrom keeps the server's short cut for files.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	r.written()
	return io.Copy(r.ResponseWriter, src)
}

func (r *recorder) written() {
	if r.status == 0 {
		r.status = http.StatusOK
	}
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
