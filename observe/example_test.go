package observe_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/snowshed-go/snowshed/observe"
)

// An observer is a function. Whatever it does, the part that it watches goes on.
func ExampleEmit() {
	watch := observe.Func(func(e observe.Event) {
		fmt.Println(e.Level, e.Kind, e.Source, e.Err)
		panic("a bug in the observer")
	})
	observe.Emit(watch, observe.Event{
		Kind: observe.LoadFailed, Level: observe.Warn, Source: "users", Err: errors.New("no connection"),
	})
	fmt.Println("still here")
	// Output:
	// warn load.failed users no connection
	// still here
}

func ExampleSlog() {
	h := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // the output of an example is the same every day
		}
		return a
	}})
	observe.Emit(observe.Slog(slog.New(h)), observe.Event{
		Kind: observe.RedisDown, Level: observe.Critical, Source: "shop", Message: "Redis does not answer", Duration: time.Second,
	})
	// Output: level=ERROR msg="Redis does not answer" kind=redis.down source=shop duration=1s
}

func ExampleCounter() {
	var hits observe.Counter
	for range 3 {
		hits.Add()
	}
	fmt.Println(hits.Load())
	// Output: 3
}
