package httpguard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/snowshed-go/snowshed/observe"
	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/protection/httpguard"
)

func ExampleMiddleware() {
	bucket, err := protection.NewTokenBucket(protection.TokenBucketOptions{Name: "api", Rate: 0.5, Burst: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := httpguard.Middleware(bucket)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 503 "2"
}

// Clients that retry make a failing server fail for longer. Behind an open breaker they ask nothing.
func ExampleTransport() {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		http.Error(w, "overloaded", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	breaker, err1 := protection.NewBreaker(protection.BreakerOptions{Name: "upstream", MinCalls: 2, OpenFor: time.Minute})
	transport, err2 := httpguard.NewTransport(httpguard.TransportOptions{Policy: breaker, Base: server.Client().Transport})
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for range 100 { // retries
		resp, err := client.Get(server.URL)
		if errors.Is(err, protection.ErrRejected) {
			continue // better: come back after RetryAfter, or answer with less
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	fmt.Println("the server was asked", asked, "times")
	// Output: the server was asked 3 times
}

// An alarm goes to a log and to a pager.
func ExampleWebhook() {
	pager := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var alarm struct{ Level, Source, Cause, Phase string }
		err := json.NewDecoder(r.Body).Decode(&alarm)
		fmt.Println(alarm, err)
	}))
	defer pager.Close()
	webhook, err := httpguard.NewWebhook(httpguard.WebhookOptions{URL: pager.URL, Header: http.Header{"Authorization": {"Bearer token"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarms, err := protection.NewAlarms(protection.AlarmsOptions{
		Signals: []protection.Signal{{Source: "disk", Cause: "nearly full", Read: func() protection.Reading {
			return protection.Reading{Value: 0.93, Warn: 0.8, Critical: 0.95}
		}}},
		Observer: observe.All(observe.Slog(slog.New(slog.DiscardHandler)), webhook),
		Every:    -1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	alarms.Check()
	fmt.Println(webhook.Close(context.Background()), alarms.Close(context.Background()))
	// Output:
	// {warn disk nearly full raised} <nil>
	// <nil> <nil>
}
