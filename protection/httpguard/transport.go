package httpguard

import (
	"context"
	"errors"
	"net/http"

	"github.com/snowshed-go/snowshed/protection"
)

// TransportOptions describes a [Transport].
type TransportOptions struct {
	Policy protection.Policy // admits requests; required
	Base   http.RoundTripper // sends them; default http.DefaultTransport

	// Classify says what a response means, from its status and headers alone: it must not touch the body. Default: 429 and
	// 500 and above are a Failure, 504 is a Timeout, all else is a Success. Errors are the policy's to classify.
	Classify func(*http.Response) protection.Outcome
}

// Transport is an http.RoundTripper that sends what its policy admits. A refused request is an error that wraps the
// *protection.RejectedError, and nothing was sent. Safe for concurrent use.
//
// The permit is held until the response's body has been read to its end or closed: the request occupies the other side, and
// a connection, for as long. So every body must be closed, as net/http demands anyway; one that never is keeps its permit
// for ever. An error while reading the body counts, unless the caller cancelled; closing a body early does not. The
// permit's limit ends the request and the reading of its body.
type Transport struct {
	policy   protection.Policy
	base     http.RoundTripper
	classify func(*http.Response) protection.Outcome
}

// NewTransport returns a Transport, or an error that names the option that cannot be.
func NewTransport(o TransportOptions) (*Transport, error) {
	if o.Policy == nil {
		return nil, errors.New("httpguard: TransportOptions.Policy is nil: it must be given")
	}
	t := &Transport{policy: o.Policy, base: o.Base, classify: o.Classify}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.classify == nil {
		t.classify = classify
	}
	return t, nil
}

func classify(r *http.Response) protection.Outcome {
	switch {
	case r.StatusCode == http.StatusGatewayTimeout:
		return protection.Timeout
	case r.StatusCode == http.StatusTooManyRequests, r.StatusCode >= http.StatusInternalServerError:
		return protection.Failure
	default:
		return protection.Success
	}
}

// RoundTrip sends the request if the policy admits it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	permit, err := t.policy.Acquire(ctx)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as the contract of RoundTripper demands; there is nobody to tell
		}
		return nil, err
	}
	cancel := context.CancelFunc(func() {})
	if limit := permit.Limit(); limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, limit, protection.ErrExecutionTimeout)
		r = r.WithContext(ctx)
	}
	e := &exchange{ctx: ctx, cancel: cancel, permit: permit}
	e.result = protection.Failure // stands if the base transport panics
	handedOn := false
	defer func() {
		if !handedOn {
			e.end(e.result)
		}
	}()
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		e.result = permit.Outcome(ctx, err)
		return nil, err
	}
	e.result = permit.Outcome(ctx, nil)
	if e.result == protection.Success {
		e.result = t.classify(resp)
	}
	handedOn = true
	resp.Body = e.watch(resp.Body)
	return resp, nil
}
