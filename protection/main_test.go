package protection_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// advance lets d pass on the clock of a synctest bubble.
func advance(d time.Duration) { <-time.NewTimer(d).C }
