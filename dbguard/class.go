package dbguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"

	"github.com/snowshed-go/snowshed/protection"
)

// classify says what an error of a statement tells about the database. The question is never whether the statement went
// well, but whether the next one would fare better without it: a duplicate key is a good answer of a healthy server.
// connValid tells whether the driver would use the connection again.
func classify(err error, connValid bool) protection.Outcome {
	var answer *mysql.MySQLError
	switch {
	case err == nil, errors.Is(err, sql.ErrNoRows), errors.Is(err, mysql.ErrPktTooLarge):
		return protection.Success
	case errors.As(err, &answer):
		return classifyAnswer(answer)
	case errors.Is(err, context.Canceled), errors.Is(err, protection.ErrRejected):
		return protection.Ignored
	case errors.Is(err, context.DeadlineExceeded):
		return protection.Timeout
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, mysql.ErrMalformPkt),
		errors.Is(err, mysql.ErrPktSync), errors.Is(err, mysql.ErrPktSyncMul):
		return protection.Failure
	case connValid:
		// Neither from the server nor from the network: a named parameter, a value that does not convert.
		return protection.Success
	default:
		return protection.Failure
	}
}

// classifyDial says what a failure to get a connection tells. Whatever the server answers, it lets nobody in.
func classifyDial(ctx context.Context, err error) protection.Outcome {
	if errors.Is(err, ErrClosed) {
		return protection.Ignored
	}
	if ended := ctx.Err(); ended != nil {
		err = ended // the dial failed because of it, and may say so in other words
	}
	return protection.Classify(err)
}

// classifyAnswer goes by the number first: the SQLSTATE of "too many connections" may be empty, and "too many connections
// of this user" shares its class with syntax errors.
func classifyAnswer(e *mysql.MySQLError) protection.Outcome {
	switch e.Number {
	case 1040, 1203, 1226, // too many connections: in all, of the user, per hour
		1041, 1037, 1038, 1135, // out of memory, of sort memory, of threads
		1206, 1461: // too many locks, too many prepared statements
		return protection.Failure
	case 1053, 1077, 1079, // shutdown
		1158, 1159, 1160, 1161, // the server's own network errors
		2006, 2013: // server gone, connection lost: sent by proxies
		return protection.Failure
	case 3024, 1969, 1907: // the server's limit on execution time
		return protection.Timeout
	case 1205, 1213, 3572, 3058: // lock wait timeout, deadlock, NOWAIT, deadlock of user locks: the callers contend
		return protection.Ignored
	case 1317, 1927, 3169, 4031: // killed, connection killed, session killed, session idle for too long
		return protection.Ignored
	case 1290, 1792, 1836, 1047: // read-only, or a node that is not in its cluster: the wrong server, not a sick one
		return protection.Ignored
	case 1193, 1210, 1265, 1295, 1356, 1364, 1366, 1390, 1411, 3819:
		// The caller's mistakes that have no SQLSTATE class of their own: unknown variable, bad argument, truncated data,
		// cannot be prepared, invalid view, no default, bad string or number, too many placeholders, bad date, CHECK.
		return protection.Success
	}
	switch string(e.SQLState[:2]) {
	case "0A", "21", "22", "23", "42", "44", "45":
		// Unsupported, wrong cardinality, bad data, constraint, syntax or access, view's check, SIGNAL.
		return protection.Success
	default:
		return protection.Failure
	}
}

// wrongServer reports whether err says that this server does not take writes (any more). New connections may reach the one
// that does.
func wrongServer(err error) bool {
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Number {
	case 1290, 1792, 1836, 1047:
		return true
	default:
		return false
	}
}
