package tiers

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/snowshed-go/snowshed/protection"
)

// classify says what the result of a command tells about Redis. Only what shows that Redis itself cannot serve counts
// against it: an answer that routes the command elsewhere, refuses a write for lack of memory, or finds nothing is an
// answer. A wait for a free connection that timed out is load on this side.
func classify(err error) protection.Outcome {
	if err == nil || errors.Is(err, redis.Nil) {
		return protection.Success
	}
	if re, ok := errors.AsType[redis.Error](err); ok {
		return classifyCode(errorCode(re))
	}
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return protection.Ignored
	case errors.Is(err, context.Canceled): // calls run detached, so this is a client that is being closed
		return protection.Ignored
	case isTimeout(err):
		return protection.Timeout
	default:
		return protection.Failure
	}
}

func classifyCode(code string) protection.Outcome {
	switch code {
	case "WRONGTYPE":
		return protection.Success
	case "MOVED", "ASK", "CROSSSLOT", "TRYAGAIN", "NOSCRIPT", "OOM", "MISCONF", "NOREPLICAS":
		return protection.Ignored
	default: // READONLY, CLUSTERDOWN, LOADING, MASTERDOWN, BUSY, NOAUTH, ERR max number of clients reached, …
		return protection.Failure
	}
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

// errorCode returns the first word of a Redis error, which by convention is its code.
func errorCode(err redis.Error) string {
	code, _, _ := strings.Cut(err.Error(), " ")
	return code
}

// isRedirect reports whether the node answered that another one, or the same one later, serves the command.
func isRedirect(err error) bool {
	re, ok := errors.AsType[redis.Error](err)
	if !ok {
		return false
	}
	switch errorCode(re) {
	case "MOVED", "ASK":
		return true
	default:
		return false
	}
}
