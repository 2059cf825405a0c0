package mysqltest

import (
	"context"
	"errors"
	"fmt"
)

// Error is an answer of the server that says no. A [Handler] or a [Fault] that returns one sends it as an error packet.
type Error struct {
	Number   uint16
	SQLState string // five characters; empty: the packet carries none, as from some proxies and old servers
	Message  string
}

// Error returns the number, the SQLSTATE and the message.
func (e *Error) Error() string {
	return fmt.Sprintf("mysqltest: error %d (%s): %s", e.Number, e.SQLState, e.Message)
}

// Errno returns the error that a MySQL server sends for number; an unfamiliar number has SQLSTATE HY000.
func Errno(number uint16) *Error {
	known := map[uint16][2]string{
		1040: {"08004", "Too many connections"},
		1041: {"HY000", "Out of memory; check if mysqld or some other process uses all available memory"},
		1045: {"28000", "Access denied"},
		1047: {"08S01", "Unknown command"},
		1053: {"08S01", "Server shutdown in progress"},
		1054: {"42S22", "Unknown column"},
		1062: {"23000", "Duplicate entry"},
		1064: {"42000", "You have an error in your SQL syntax"},
		1094: {"HY000", "Unknown thread id"},
		1105: {"HY000", "Unknown error"},
		1146: {"42S02", "Table doesn't exist"},
		1153: {"08S01", "Got a packet bigger than 'max_allowed_packet' bytes"},
		1205: {"HY000", "Lock wait timeout exceeded; try restarting transaction"},
		1210: {"HY000", "Incorrect arguments to mysqld_stmt_execute"},
		1213: {"40001", "Deadlock found when trying to get lock; try restarting transaction"},
		1227: {"42000", "Access denied; you need (at least one of) the PROCESS privilege(s) for this operation"},
		1243: {"HY000", "Unknown prepared statement handler"},
		1290: {"HY000", "The MySQL server is running with the --read-only option so it cannot execute this statement"},
		1317: {"70100", "Query execution was interrupted"},
		3024: {"HY000", "Query execution was interrupted, maximum statement execution time exceeded"},
		4031: {"HY000", "The client was disconnected by the server because of inactivity."},
		6413: {"HY000", "KILL takes no parameter"},
	}
	text, ok := known[number]
	if !ok {
		text = [2]string{"HY000", "Scripted error"}
	}
	return &Error{Number: number, SQLState: text[0], Message: text[1]}
}

// errorf is Errno with a text that says more.
func errorf(number uint16, format string, args ...any) *Error {
	e := Errno(number)
	e.Message = fmt.Sprintf(format, args...)
	return e
}

// asError turns what a handler returned into what the wire can carry. A statement whose ctx has ended answers the reason
// for that, whatever its handler made of it.
func asError(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return errorf(1105, "%v", err)
}

// Ends of a session that are not answers.
var (
	errDropped   = errors.New("mysqltest: connection closed by a fault")
	errReset     = errors.New("mysqltest: connection reset by a fault")
	errSilent    = errors.New("mysqltest: connection silenced by a fault")
	errMalformed = errors.New("mysqltest: malformed packet")
	errTooLarge  = errors.New("mysqltest: packet too large")
)
