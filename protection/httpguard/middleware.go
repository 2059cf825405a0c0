package httpguard

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/snowshed-go/snowshed/protection"
)

// Middleware returns a wrapper for handlers that serves what p admits. A refused request gets 503 Service Unavailable as
// plain text, with a Retry-After header if p gave a hint. The handler's ctx ends with the permit's limit. A status of 500
// or above counts as a failure, and as a timeout if the limit had ended; a client that has gone counts for nothing; a panic
// is a failure and goes on, http.ErrAbortHandler too. A nil p admits everything. Safe for concurrent use.
//
// The permit is held until the handler returns, a hijacked connection's too. The ResponseWriter that the handler gets is
// an http.Flusher and an http.Hijacker if the server's is, and has Unwrap for http.ResponseController.
func Middleware(p protection.Policy) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			started := false
			err := protection.Do(r.Context(), p, func(ctx context.Context) error {
				started = true
				rec, writer := record(w)
				next.ServeHTTP(writer, r.WithContext(ctx))
				if err := r.Context().Err(); err != nil {
					return err // context.Canceled: the client has gone
				}
				if rec.status >= http.StatusInternalServerError {
					return errServer
				}
				return nil
			})
			if !started && err != nil {
				refuse(w, err)
			}
		})
	}
}

// errServer stands for a response that says that the server failed.
var errServer = errors.New("the server answered with a status of 500 or above")

// refuse answers for a handler that was not asked. A client that has gone gets the answer too, and does not see it.
func refuse(w http.ResponseWriter, err error) {
	if refusal, ok := errors.AsType[*protection.RejectedError](err); ok && refusal.RetryAfter > 0 {
		w.Header().Set("Retry-After", seconds(refusal.RetryAfter))
	}
	http.Error(w, "service unavailable: try again later", http.StatusServiceUnavailable)
}

// seconds rounds up: who waits that long has waited long enough (RFC 9110, 10.2.3).
func seconds(d time.Duration) string {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return strconv.FormatInt(n, 10)
}
