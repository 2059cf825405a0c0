package httpguard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/snowshed-go/snowshed/protection"
)

// exchange is one request and its response, to the end of the body.
type exchange struct {
	ctx    context.Context //nolint:containedctx // of the request, to tell why reading its body failed
	cancel context.CancelFunc
	result protection.Outcome // what the header says

	mu     sync.Mutex // a body may be closed while it is read
	permit protection.Permit
}

// end gives the permit back. The first outcome counts.
func (e *exchange) end(o protection.Outcome) {
	e.mu.Lock()
	e.permit.Done(o)
	e.mu.Unlock()
	e.cancel()
}

// outcome is what err means.
func (e *exchange) outcome(err error) protection.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.permit.Outcome(e.ctx, err)
}

// watch returns body so that its end ends the exchange. A response without one has ended.
func (e *exchange) watch(b io.ReadCloser) io.ReadCloser {
	if b == nil || b == http.NoBody {
		e.end(e.result)
		return b
	}
	watched := &body{ReadCloser: b, e: e}
	if w, ok := b.(io.Writer); ok { // of 101 Switching Protocols
		return struct {
			*body
			io.Writer
		}{watched, w}
	}
	return watched
}

// body is a body of a response.
type body struct {
	io.ReadCloser
	e *exchange
}

// Read ends the exchange at the end of the body, or when it fails.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.e.end(b.e.result)
	default:
		b.e.end(b.e.outcome(err))
	}
	return n, err
}

// Close ends the exchange. What the header said counts, unless it had run out of time.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	if o := b.e.outcome(nil); o != protection.Success {
		b.e.end(o)
	} else {
		b.e.end(b.e.result)
	}
	return err
}
