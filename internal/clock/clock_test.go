package clock_test

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/clock"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

func pass(d time.Duration) { <-time.NewTimer(d).C }

func TestClockCountsFromOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Start()
		defer c.Stop()
		assert.Equal(t, c.Coarse(), 1)
		assert.Equal(t, c.Now(), 1)
		pass(time.Hour)
		assert.Equal(t, c.Now(), 1+int64(time.Hour))
	})
}

func TestCoarseIsLateByATickAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Start()
		defer c.Stop()
		start := time.Now()
		for range 3_000 {
			pass(317 * time.Microsecond)
			exact := int64(time.Since(start)) + 1
			late := exact - c.Coarse()
			assert.True(t, late >= 0 && late <= int64(clock.Tick), time.Duration(late))
		}
	})
}

func TestNowRefreshesTheCoarseReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Start()
		defer c.Stop()
		pass(time.Millisecond)
		assert.Equal(t, c.Coarse(), 1)
		assert.Equal(t, c.Now(), 1+int64(time.Millisecond))
		assert.Equal(t, c.Coarse(), 1+int64(time.Millisecond))
	})
}

func TestStopEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Start()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(c.Stop)
		}
		wg.Wait()
		c.Stop()
		coarse := c.Coarse()
		pass(time.Minute)
		assert.Equal(t, c.Coarse(), coarse, "nobody refreshes it any more")
		assert.Equal(t, c.Now(), 1+int64(time.Minute), "the exact reading goes on")
		assert.Equal(t, c.Coarse(), 1+int64(time.Minute))
	})
}

// Readings never go back on one goroutine, whichever of the two is asked.
func TestReadingsNeverGoBack(t *testing.T) {
	t.Parallel()
	c := clock.Start()
	defer c.Stop()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := int64(0)
			for i := range 20_000 {
				var now int64
				if i%3 == 0 {
					now = c.Now()
				} else {
					now = c.Coarse()
				}
				if now < last || now < 1 {
					t.Errorf("a reading of %d after %d", now, last)
					return
				}
				last = now
			}
		})
	}
	wg.Wait()
}
