package httpguard_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/protection/httpguard"
)

func serve(t *testing.T, p protection.Policy, h http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	httpguard.Middleware(p)(h).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	return w
}

func TestMiddlewareRefusesWith503(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{0, ""}, {1, "1"}, {time.Second, "1"}, {time.Second + 1, "2"}, {90 * time.Second, "90"}} {
		g := &gate{err: &protection.RejectedError{Name: "secret-db", Reason: protection.ErrOpen, RetryAfter: c.after}}
		w := serve(t, g, func(http.ResponseWriter, *http.Request) { t.Error("served") })
		assert.Equal(t, w.Code, http.StatusServiceUnavailable)
		assert.Equal(t, w.Header().Get("Retry-After"), c.want)
		assert.Equal(t, w.Header().Get("Content-Type"), "text/plain; charset=utf-8")
		assert.True(t, !strings.Contains(w.Body.String(), "secret-db"), "names are for the inside")
	}
}

func TestMiddlewareJudgesByTheStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]protection.Outcome{
		0: protection.Success, 200: protection.Success, 404: protection.Success, 429: protection.Success,
		500: protection.Failure, 503: protection.Failure,
	} {
		g := &gate{}
		w := serve(t, g, func(w http.ResponseWriter, _ *http.Request) {
			if status > 0 {
				w.WriteHeader(http.StatusEarlyHints) // is not final
				w.WriteHeader(status)
			}
			_, _ = io.WriteString(w, "body")
			w.WriteHeader(http.StatusBadGateway) // too late
		})
		assert.Equal(t, w.Body.String(), "body")
		g.ended(t, want)
	}
	g := &gate{}
	assert.Equal(t, serve(t, g, func(http.ResponseWriter, *http.Request) {}).Code, http.StatusOK)
	g.ended(t, protection.Success)
	assert.Equal(t, serve(t, nil, func(http.ResponseWriter, *http.Request) {}).Code, http.StatusOK)
}

func TestMiddlewareWaysOut(t *testing.T) {
	t.Parallel()
	t.Run("panic", func(t *testing.T) {
		t.Parallel()
		g := &gate{}
		func() {
			defer func() { assert.Equal(t, recover(), any(http.ErrAbortHandler)) }()
			serve(t, g, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}()
		g.ended(t, protection.Failure)
	})
	t.Run("the client has gone", func(t *testing.T) {
		t.Parallel()
		g := &gate{}
		ctx, cancel := context.WithCancel(t.Context())
		h := httpguard.Middleware(g)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			cancel()
			w.WriteHeader(http.StatusInternalServerError)
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
		g.ended(t, protection.Ignored)
	})
	t.Run("the limit", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := &gate{limit: limit(t, 50*time.Millisecond)}
			serve(t, g.policy(), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			g.ended(t, protection.Timeout)
		})
	})
}

func TestMiddlewareKeepsTheOptionalInterfaces(t *testing.T) {
	t.Parallel()
	bulkhead, err := protection.NewBulkhead(protection.BulkheadOptions{MaxConcurrent: 1})
	assert.NoError(t, err)
	hijacked := make(chan error, 1)
	server := httptest.NewServer(httpguard.Middleware(bulkhead)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/file" {
			_, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("file"))
			hijacked <- err
			return
		}
		if _, ok := w.(http.Flusher); !ok {
			hijacked <- errors.New("no Flusher")
			return
		}
		if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
			hijacked <- err
			return
		}
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nraw")
			conn.Close()
		}
		hijacked <- err
	})))
	defer server.Close()
	for path, want := range map[string]string{"/": "raw", "/file": "file"} {
		resp, err := server.Client().Get(server.URL + path)
		assert.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, string(text), want)
		assert.NoError(t, <-hijacked)
	}
	assert.Eventually(t, time.Second, func() bool { return bulkhead.InFlight() == 0 })
}

// only is a ResponseWriter with nothing more than it must have, or one thing more.
type only struct{ http.ResponseWriter }

type flushing struct {
	only
	http.Flusher
}

type hijacking struct{ only }

func (hijacking) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errNet }

func TestMiddlewareInventsNoInterfaces(t *testing.T) {
	t.Parallel()
	rec := httptest.NewRecorder()
	for _, c := range []struct {
		w               http.ResponseWriter
		flushes, hijack bool
	}{{only{rec}, false, false}, {flushing{only{rec}, rec}, true, false}, {hijacking{only{rec}}, false, true}} {
		httpguard.Middleware(nil)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, flushes := w.(http.Flusher)
			_, hijacks := w.(http.Hijacker)
			assert.Equal(t, []bool{flushes, hijacks}, []bool{c.flushes, c.hijack})
		})).ServeHTTP(c.w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	}
}
