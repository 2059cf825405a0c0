package httpguard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/protection/httpguard"
)

func transport(t *testing.T, p protection.Policy, base sends) *httpguard.Transport {
	t.Helper()
	tr, err := httpguard.NewTransport(httpguard.TransportOptions{Policy: p, Base: base})
	assert.NoError(t, err)
	return tr
}

func request(ctx context.Context, t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://x/", http.NoBody)
	assert.NoError(t, err)
	return r
}

// answers is a response with a body.
func answers(status int, body io.ReadCloser) sends {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Body: body, Request: r}, nil
	}
}

func text(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }

// torn is a body that fails after a while.
type torn struct {
	after time.Duration
	err   error
}

func (b torn) Read([]byte) (int, error) { advance(b.after); return 0, b.err }
func (torn) Close() error               { return nil }

func TestTransportHoldsThePermitUntilTheBodyEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(io.ReadCloser){
		"read":             func(b io.ReadCloser) { _, _ = io.ReadAll(b) },
		"closed":           func(b io.ReadCloser) { _ = b.Close() },
		"read, closed":     func(b io.ReadCloser) { _, _ = io.ReadAll(b); _ = b.Close(); _ = b.Close() },
		"partly, closed":   func(b io.ReadCloser) { _, _ = b.Read(make([]byte, 2)); _ = b.Close() },
		"closed, and read": func(b io.ReadCloser) { _ = b.Close(); _, _ = io.ReadAll(b) },
	} {
		g := &gate{}
		resp, err := transport(t, g, answers(200, text("hello"))).RoundTrip(request(t.Context(), t)) //nolint:bodyclose // its end is what is tested
		assert.NoError(t, err)
		assert.Equal(t, g.out, 1, name)
		end(resp.Body)
		g.ended(t, protection.Success)
	}
}

func TestTransportWithoutABodyHoldsNothing(t *testing.T) {
	t.Parallel()
	g := &gate{}
	resp, err := transport(t, g, answers(204, http.NoBody)).RoundTrip(request(t.Context(), t))
	assert.NoError(t, err)
	defer resp.Body.Close()
	g.ended(t, protection.Success)
}

func TestTransportClassifiesTheStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]protection.Outcome{
		200: protection.Success, 301: protection.Success, 404: protection.Success, 429: protection.Failure,
		500: protection.Failure, 503: protection.Failure, 504: protection.Timeout,
	} {
		for _, end := range []func(io.ReadCloser){func(b io.ReadCloser) { _, _ = io.ReadAll(b) }, func(b io.ReadCloser) { _ = b.Close() }} {
			g := &gate{}
			resp, err := transport(t, g, answers(status, text("x"))).RoundTrip(request(t.Context(), t)) //nolint:bodyclose // its end is what is tested
			assert.NoError(t, err)
			end(resp.Body)
			g.ended(t, want)
		}
	}
	g := &gate{}
	tr, err := httpguard.NewTransport(httpguard.TransportOptions{Policy: g, Base: answers(404, http.NoBody), Classify: func(r *http.Response) protection.Outcome {
		assert.Equal(t, r.StatusCode, 404)
		return protection.Failure
	}})
	assert.NoError(t, err)
	resp, err := tr.RoundTrip(request(t.Context(), t))
	assert.NoError(t, err)
	defer resp.Body.Close()
	g.ended(t, protection.Failure)
}

func TestTransportErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want protection.Outcome
	}{{errNet, protection.Failure}, {context.Canceled, protection.Ignored}, {context.DeadlineExceeded, protection.Timeout}} {
		g := &gate{}
		resp, err := transport(t, g, func(*http.Request) (*http.Response, error) { return nil, c.err }).RoundTrip(request(t.Context(), t)) //nolint:bodyclose // there is none
		assert.Equal(t, err, c.err)
		assert.True(t, resp == nil)
		g.ended(t, c.want)

		g = &gate{}
		resp, err = transport(t, g, answers(200, torn{err: c.err})).RoundTrip(request(t.Context(), t))
		assert.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		assert.Equal(t, err, c.err)
		resp.Body.Close()
		g.ended(t, c.want) // the body counts as much as the header
	}
}

func TestTransportPanicLeavesNothingTaken(t *testing.T) {
	t.Parallel()
	g := &gate{}
	func() {
		defer func() { assert.Equal(t, recover(), any("boom")) }()
		_, _ = transport(t, g, func(*http.Request) (*http.Response, error) { panic("boom") }).RoundTrip(request(t.Context(), t)) //nolint:bodyclose // there is none
	}()
	g.ended(t, protection.Failure)
}

func TestTransportLimitReachesIntoTheBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{limit: limit(t, 50*time.Millisecond)}
		var sent *http.Request
		tr := transport(t, g.policy(), func(r *http.Request) (*http.Response, error) {
			sent = r
			return answers(200, torn{60 * time.Millisecond, io.ErrUnexpectedEOF})(r)
		})
		resp, err := tr.RoundTrip(request(t.Context(), t))
		assert.NoError(t, err)
		assert.NoError(t, sent.Context().Err(), "the ctx lives as long as the body")
		_, err = io.ReadAll(resp.Body)
		assert.Equal(t, err, io.ErrUnexpectedEOF)
		resp.Body.Close()
		assert.Equal(t, context.Cause(sent.Context()), protection.ErrExecutionTimeout)
		g.ended(t, protection.Timeout)

		g = &gate{limit: limit(t, 50*time.Millisecond)}
		resp, err = transport(t, g.policy(), answers(200, text("x"))).RoundTrip(request(t.Context(), t))
		assert.NoError(t, err)
		advance(time.Second)
		resp.Body.Close()
		g.ended(t, protection.Timeout) // closed too late
	})
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestTransportRefusalSendsNothing(t *testing.T) {
	t.Parallel()
	g := &gate{err: &protection.RejectedError{Reason: protection.ErrOpen}}
	client := &http.Client{Transport: transport(t, g, func(*http.Request) (*http.Response, error) {
		t.Error("sent")
		return nil, errNet
	})}
	body := &closing{Reader: strings.NewReader("x")}
	resp, err := client.Post("http://x/", "text/plain", body) //nolint:bodyclose // there is none
	assert.ErrorIs(t, err, protection.ErrOpen)
	assert.ErrorIs(t, err, protection.ErrRejected)
	assert.True(t, resp == nil && body.closed, "closed, as the contract of RoundTripper demands")
}

type duplex struct {
	io.ReadCloser
	io.Writer
}

func TestTransportUpgradeStaysWritable(t *testing.T) {
	t.Parallel()
	g := &gate{}
	var sent strings.Builder
	resp, err := transport(t, g, answers(http.StatusSwitchingProtocols, duplex{text("x"), &sent})).RoundTrip(request(t.Context(), t))
	assert.NoError(t, err)
	_, err = io.WriteString(resp.Body.(io.Writer), "hi")
	assert.NoError(t, err)
	assert.Equal(t, sent.String(), "hi")
	resp.Body.Close()
	g.ended(t, protection.Success)
}

func TestTransportBodyClosedWhileRead_stress(t *testing.T) {
	t.Parallel()
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{MaxConcurrent: 8, MaxQueue: 100, MaxWait: time.Minute})
	assert.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1<<16))
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	tr, err := httpguard.NewTransport(httpguard.TransportOptions{Policy: bulkhead, Base: base})
	assert.NoError(t, err)
	client := &http.Client{Transport: tr}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				resp, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				var both sync.WaitGroup
				both.Go(func() { _, _ = io.Copy(io.Discard, resp.Body) })
				both.Go(func() { resp.Body.Close() })
				both.Wait()
			}
		})
	}
	wg.Wait()
	assert.Equal(t, bulkhead.InFlight(), 0)
}

func TestTransportThatCannotBe(t *testing.T) {
	t.Parallel()
	_, err := httpguard.NewTransport(httpguard.TransportOptions{})
	named(t, err, "TransportOptions.Policy is nil")
	assert.True(t, !errors.Is(err, protection.ErrRejected))
}
