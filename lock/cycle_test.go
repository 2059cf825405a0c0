package lock_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/lock"
)

// limited is a context for tests of circles: a circle that nobody notices ends with it instead of hanging.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// nested is work that first takes some time, then joins the flight of key and adds 1 to what it gets.
func nested(limit context.Context, f *lock.Flights[int], d time.Duration, key string, run func(context.Context) (int, error)) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		pass(ctx, d)
		ticket, err := f.Join(ctx, key, run)
		if err != nil {
			return 0, err
		}
		v, _, err := ticket.Wait(limit, nil)
		return v + 1, err
	}
}

func TestCycleOfOneKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		got := do(ctx, f, "a", nested(ctx, f, 0, "a", after(0, 1)))
		assert.ErrorIs(t, got.err, lock.ErrCycle)
		assert.Equal(t, do(ctx, f, "a", after(0, 1)).v, 1, "the key is free again")
	})
}

func TestCycleOfTwoKeys(t *testing.T) {
	t.Parallel()
	for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
		synctest.Test(t, func(t *testing.T) {
			f, ctx := lock.NewFlights[int](), limited(t)
			x, y := order[0], order[1]
			got := do(ctx, f, x, nested(ctx, f, time.Second, y, nested(ctx, f, time.Second, x, after(0, 1))))
			assert.ErrorIs(t, got.err, lock.ErrCycle)
		})
	}
}

func TestCycleThroughAThird(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		// Each key is started by a caller of its own, and the circle closes later.
		a := start(ctx, f, "a", nested(ctx, f, 1*time.Second, "b", after(0, 1)))
		b := start(ctx, f, "b", nested(ctx, f, 2*time.Second, "c", after(0, 1)))
		c := start(ctx, f, "c", nested(ctx, f, 3*time.Second, "a", after(0, 1)))
		assert.ErrorIs(t, (<-c).err, lock.ErrCycle)
		assert.ErrorIs(t, (<-b).err, lock.ErrCycle, "the error reaches those who waited for it")
		assert.ErrorIs(t, (<-a).err, lock.ErrCycle)
	})
}

func TestCycleAcrossTypes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ints, strs, ctx := lock.NewFlights[int](), lock.NewFlights[string](), limited(t)
		got := do(ctx, ints, "k", func(inner context.Context) (int, error) {
			ticket, err := strs.Join(inner, "k", func(inner context.Context) (string, error) {
				v, err := nested(ctx, ints, 0, "k", after(0, 1))(inner)
				return strconv.Itoa(v), err
			})
			if err != nil {
				return 0, err
			}
			_, _, err = ticket.Wait(ctx, nil)
			return 1, err
		})
		assert.ErrorIs(t, got.err, lock.ErrCycle)
	})
}

// Two flights that close a circle at the same moment: at least one sees it, and nobody hangs.
func TestCycleClosedByBothAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 3_000 {
		f := lock.NewFlights[int]()
		var ready sync.WaitGroup
		ready.Add(2)
		cross := func(other string) func(context.Context) (int, error) {
			return func(inner context.Context) (int, error) {
				ready.Done()
				ready.Wait()
				return nested(ctx, f, 0, other, after(0, 1))(inner)
			}
		}
		a, b := start(ctx, f, "a", cross("b")), start(ctx, f, "b", cross("a"))
		gotA, gotB := <-a, <-b
		// Who comes when the other has failed already starts a flight of its own. Nobody waits for the deadline.
		assert.True(t, errors.Is(gotA.err, lock.ErrCycle) || errors.Is(gotB.err, lock.ErrCycle), gotA, gotB)
		assert.True(t, !errors.Is(gotA.err, context.DeadlineExceeded) && !errors.Is(gotB.err, context.DeadlineExceeded))
	}
}

// An invalidation forgets a flight that is part of a circle: the circle is there all the same.
func TestCycleThroughAForgottenFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		a := start(ctx, f, "a", nested(ctx, f, 2*time.Second, "b", after(0, 1)))
		synctest.Wait()
		b := start(ctx, f, "b", nested(ctx, f, 1*time.Second, "a", after(0, 1))) // waits for a from 1 s
		pass(ctx, 1500*time.Millisecond)
		f.Forget("a")
		began := time.Now()
		assert.ErrorIs(t, (<-a).err, lock.ErrCycle, "at 2 s the forgotten a would wait for b")
		assert.ErrorIs(t, (<-b).err, lock.ErrCycle)
		assert.Equal(t, time.Since(began), 500*time.Millisecond)
	})
}

// The reverse: the flight that took the forgotten one's place is not the one that is waited for.
func TestNoCycleThroughTheSuccessorOfAForgottenFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		old := start(ctx, f, "a", after(10*time.Second, 1))
		synctest.Wait()
		b := start(ctx, f, "b", nested(ctx, f, 0, "a", after(0, 100)))
		synctest.Wait()
		f.Forget("a")
		next := start(ctx, f, "a", nested(ctx, f, 0, "b", after(0, 100)))
		assert.Equal(t, <-next, value[int]{3, true, nil}, "a waits for b, and b for the old a, which ends")
		assert.Equal(t, <-b, value[int]{2, true, nil})
		assert.Equal(t, <-old, value[int]{1, true, nil})
	})
}

func TestNoCycleInADiamond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		d := after(time.Second, 1)
		got := do(ctx, f, "a", func(inner context.Context) (int, error) {
			b := start(inner, f, "b", nested(ctx, f, 0, "d", d))
			c := start(inner, f, "c", nested(ctx, f, 0, "d", d))
			gotB, gotC := <-b, <-c
			again := do(inner, f, "d", after(0, 5)) // d once more, from a itself
			return gotB.v + gotC.v + again.v, errors.Join(gotB.err, gotC.err, again.err)
		})
		assert.NoError(t, got.err)
		assert.Equal(t, got.v, 2+2+5)
	})
}

// Work that fans out, and whose branches fan out over the same keys.
func TestNoCycleInAFan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		var level func(n int) func(context.Context) (int, error)
		level = func(n int) func(context.Context) (int, error) {
			return func(inner context.Context) (int, error) {
				pass(inner, time.Millisecond)
				if n == 0 {
					return 1, nil
				}
				var g errgroup.Group
				for range 2 { // the same flights twice from one parent
					for i := range 3 {
						g.Go(func() error { return do(inner, f, strconv.Itoa(10*(n-1)+i), level(n-1)).err })
					}
				}
				return n, g.Wait()
			}
		}
		var g errgroup.Group
		for i := range 3 {
			g.Go(func() error { return do(ctx, f, strconv.Itoa(40+i), level(4)).err })
		}
		assert.NoError(t, g.Wait())
	})
}

func TestNoCycleForDetachedWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		type key struct{}
		background := make(chan value[int], 1)
		got := do(context.WithValue(ctx, key{}, "mine"), f, "a", func(inner context.Context) (int, error) {
			detached := lock.Detach(inner)
			assert.Equal(t, detached.Value(key{}), any("mine"), "the other values stay")
			go func() { background <- do(detached, f, "a", after(0, 9)) }()
			pass(inner, time.Second)
			return 1, nil
		})
		assert.Equal(t, got, value[int]{1, true, nil})
		assert.Equal(t, <-background, value[int]{1, false, nil}, "it waits for the flight that does not wait for it")
		assert.Equal(t, do(lock.Detach(ctx), f, "a", after(0, 3)).v, 3, "detached from nothing")
	})
}

func TestNoCycleAfterTheFlightEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		left := make(chan context.Context, 1)
		a := func(inner context.Context) (int, error) {
			left <- context.WithoutCancel(inner)
			pass(inner, time.Second)
			return 1, nil
		}
		b := start(ctx, f, "b", func(inner context.Context) (int, error) {
			ticket, err := f.Join(inner, "a", a)
			assert.NoError(t, err)
			pass(inner, 5*time.Second) // long after the end of a, whose ticket it still holds
			v, _, err := ticket.Wait(inner, nil)
			return v + 1, err
		})
		ofA := <-left
		pass(ctx, 2*time.Second)
		assert.Equal(t, do(ofA, f, "a", after(0, 7)), value[int]{7, true, nil}, "the same key again")
		behind := start(ofA, f, "b", after(0, 9))
		assert.Equal(t, <-b, value[int]{2, true, nil})
		assert.Equal(t, <-behind, value[int]{2, false, nil}, "a has ended: it waits for nothing that its work left behind")
	})
}

// Whoever has left waits no more, by whatever door.
func TestNoCycleAfterLeaving(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(ctx context.Context, ticket lock.Ticket[int]){
		"patience": func(ctx context.Context, ticket lock.Ticket[int]) {
			_, _, err := ticket.Wait(ctx, time.NewTimer(time.Second).C)
			assert.ErrorIs(t, err, lock.ErrPatience)
			ticket.Leave()
		},
		"deadline": func(ctx context.Context, ticket lock.Ticket[int]) {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, _, err := ticket.Wait(ctx, nil)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		},
		"at once": func(_ context.Context, ticket lock.Ticket[int]) { ticket.Leave() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, ctx := lock.NewFlights[int](), limited(t)
				a := start(ctx, f, "a", func(inner context.Context) (int, error) {
					ticket, err := f.Join(inner, "b", nested(ctx, f, 2*time.Second, "a", after(0, 9)))
					if err != nil {
						return 0, err
					}
					leave(inner, ticket)
					pass(inner, 5*time.Second)
					return 1, nil
				})
				pass(ctx, 1500*time.Millisecond)
				b := start(ctx, f, "b", after(0, 9))
				assert.Equal(t, <-a, value[int]{1, true, nil})
				assert.Equal(t, <-b, value[int]{2, false, nil}, "b waited for a, which waited for b no more")
			})
		})
	}
}

// Patience that ended is no leaving: the caller may wait again, so a circle is still one.
func TestCycleWhilePatienceEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, ctx := lock.NewFlights[int](), limited(t)
		got := do(ctx, f, "a", func(inner context.Context) (int, error) {
			ticket, err := f.Join(inner, "b", nested(ctx, f, 2*time.Second, "a", after(0, 9)))
			assert.NoError(t, err)
			_, _, err = ticket.Wait(inner, time.NewTimer(time.Second).C)
			assert.ErrorIs(t, err, lock.ErrPatience)
			_, _, err = ticket.Wait(inner, nil)
			return 0, err
		})
		assert.ErrorIs(t, got.err, lock.ErrCycle)
	})
}
