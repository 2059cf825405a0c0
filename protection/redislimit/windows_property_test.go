package redislimit_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/snowshed-go/snowshed/protection"
	"github.com/snowshed-go/snowshed/protection/redislimit"
)

// model knows every unit that was ever taken, and counts them anew each time.
type model struct {
	limit   int
	length  time.Duration
	sliding bool
	taken   []time.Time
}

func (m *model) within(window int64) (n int) {
	for _, at := range m.taken {
		if at.UnixMicro()/m.length.Microseconds() == window {
			n++
		}
	}
	return n
}

func (m *model) fits(now time.Time, n int) bool {
	window := now.UnixMicro() / m.length.Microseconds()
	used := float64(m.within(window) + n)
	if m.sliding {
		passed := float64(now.UnixMicro()%m.length.Microseconds()) / float64(m.length.Microseconds())
		used += float64(m.within(window-1)) * (1 - passed)
	}
	return used <= float64(m.limit)+1e-9
}

// most returns the most units that came within one length of time.
func (m *model) most() (most int) {
	for _, first := range m.taken {
		n := 0
		for _, at := range m.taken {
			if d := at.Sub(first); d >= 0 && d < m.length {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// pair is a limit and its models, one for each window.
type pair struct {
	f      *fake
	w      *redislimit.Windows
	models []*model
}

func newPair(r *rapid.T, f *fake) pair {
	sliding := rapid.Bool().Draw(r, "sliding")
	keys := []string{"{k}1", "{k}2"}[:rapid.IntRange(1, 2).Draw(r, "windows")]
	windows, models := make([]redislimit.Window, len(keys)), make([]*model, len(keys))
	for i, key := range keys {
		limit, length := rapid.IntRange(1, 20).Draw(r, "limit"), time.Duration(rapid.IntRange(1, 5000).Draw(r, "length"))*time.Millisecond
		windows[i] = redislimit.Window{Key: key, Limit: limit, Length: length}
		models[i] = &model{limit: limit, length: length, sliding: sliding}
	}
	w, err := redislimit.New(f.client, redislimit.Options{Windows: windows, Sliding: sliding, Timeout: patient, WhenDown: redislimit.Refuse})
	if err != nil {
		r.Fatal(err)
	}
	return pair{f, w, models}
}

// take asks for n units, compares with the models, and returns the RetryAfter of a refusal.
func (p pair) take(r *rapid.T, n int) time.Duration {
	want := true
	for _, m := range p.models {
		want = want && m.fits(p.f.now, n)
	}
	_, err := p.w.AcquireN(r.Context(), n)
	if (err == nil) != want {
		r.Fatalf("%d units: %v, want %v", n, err, want)
	}
	if err == nil {
		for _, m := range p.models {
			for range n {
				m.taken = append(m.taken, p.f.now)
			}
		}
		return 0
	}
	refused, ok := errors.AsType[*protection.RejectedError](err)
	if !ok {
		r.Fatal(err)
	}
	return refused.RetryAfter
}

func TestWindowsAreLikeTheModel_property(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	rapid.Check(t, func(r *rapid.T) {
		f.FlushAll()
		p := newPair(r, f)
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			f.pass(time.Duration(rapid.IntRange(0, 3_000_000).Draw(r, "rest")) * time.Microsecond)
			n := rapid.IntRange(1, 8).Draw(r, "n")
			if retry := p.take(r, n); retry > 2*time.Microsecond && retry < math.MaxInt64 {
				f.pass(retry - 2*time.Microsecond)
				early := p.take(r, n)
				f.pass(2 * time.Microsecond)
				if len(p.models) == 1 && (early == 0 || p.take(r, n) != 0) {
					r.Fatalf("RetryAfter is %v: %v more were left just before", retry, early)
				}
			}
		}
		for _, m := range p.models {
			if most := m.most(); most > 2*m.limit || m.sliding && most == 2*m.limit {
				r.Fatalf("%d within %v at a limit of %d", most, m.length, m.limit)
			}
		}
	})
}
