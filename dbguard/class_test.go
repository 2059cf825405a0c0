package dbguard

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func answer(number uint16, state string) error {
	e := &mysql.MySQLError{Number: number}
	copy(e.SQLState[:], state)
	return fmt.Errorf("load: %w", e)
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want protection.Outcome
		errs []error
	}{
		{protection.Success, []error{
			nil, sql.ErrNoRows, mysql.ErrPktTooLarge,
			answer(1062, "23000"), answer(1048, "23000"), answer(1054, "42S22"), answer(1064, "42000"), answer(1146, "42S02"),
			answer(1264, "22003"), answer(1406, "22001"), answer(1451, "23000"), answer(1452, "23000"), answer(1142, "42000"),
			answer(1242, "21000"), answer(1644, "45000"), answer(1366, "HY000"), answer(1364, "HY000"), answer(3819, "HY000"),
			errors.New("mysql: driver does not support the use of Named Parameters"),
		}},
		{protection.Failure, []error{
			answer(1040, "08004"), answer(1040, ""), answer(1203, "42000"), answer(1226, "42000"), answer(1041, "HY000"),
			answer(1461, "42000"), answer(1053, "08S01"), answer(1158, "08S01"), answer(2006, "HY000"), answer(2013, "HY000"),
			answer(1105, "HY000"), answer(1030, "HY000"), answer(9999, ""),
			driver.ErrBadConn, mysql.ErrInvalidConn, mysql.ErrMalformPkt,
		}},
		{protection.Timeout, []error{
			answer(3024, "HY000"), answer(1969, "70100"), answer(1907, "HY000"),
			context.DeadlineExceeded, fmt.Errorf("load: %w", context.DeadlineExceeded),
		}},
		{protection.Ignored, []error{
			answer(1205, "HY000"), answer(1213, "40001"), answer(3572, "HY000"), answer(3058, "HY000"),
			answer(1317, "70100"), answer(1927, "70100"), answer(3169, "HY000"), answer(4031, "HY000"),
			answer(1290, "HY000"), answer(1792, "25006"), answer(1836, "HY000"), answer(1047, "08S01"),
			context.Canceled, &protection.RejectedError{Reason: protection.ErrOpen},
		}},
	} {
		for _, err := range c.errs {
			assert.Equal(t, classify(err, true), c.want, err)
		}
	}
	for _, err := range []error{io.ErrUnexpectedEOF, &net.OpError{Op: "read", Err: io.EOF}, errors.New("whatever it was")} {
		assert.Equal(t, classify(err, false), protection.Failure, "broke the connection: ", err)
	}
}

func TestClassifyDial(t *testing.T) {
	t.Parallel()
	live := t.Context()
	dead, cancel := context.WithCancel(live)
	cancel()
	assert.Equal(t, classifyDial(live, ErrClosed), protection.Ignored)
	assert.Equal(t, classifyDial(live, io.EOF), protection.Failure)
	assert.Equal(t, classifyDial(live, answer(1045, "28000")), protection.Failure, "nobody gets in")
	assert.Equal(t, classifyDial(live, context.DeadlineExceeded), protection.Timeout)
	assert.Equal(t, classifyDial(dead, io.EOF), protection.Ignored, "the caller left, and the dial failed of it")
}

// The worst step of a use counts, in whatever order they come.
func TestConnCountsTheWorstStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		steps []error
		want  protection.Outcome
	}{
		{nil, 0},
		{[]error{driver.ErrSkip}, 0},
		{[]error{nil, nil}, protection.Success},
		{[]error{nil, context.Canceled, nil}, protection.Ignored},
		{[]error{context.DeadlineExceeded, context.Canceled, nil}, protection.Timeout},
		{[]error{nil, mysql.ErrInvalidConn, context.DeadlineExceeded, context.Canceled}, protection.Failure},
	} {
		used := &conn{g: &Guard{pool: newPool(nil, 1, 0)}}
		for _, err := range c.steps {
			used.saw(err)
		}
		assert.Equal(t, used.worst, c.want, c.steps)
	}
}
