package dbguard_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/protection"
)

func TestOpenNamesTheOptionThatCannotBe(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]dbguard.Options{
		"Options.MaxConcurrent is 0":             {},
		"Options.MaxConcurrent is -1":            {MaxConcurrent: -1},
		"Options.MaxWait is -1ns":                {MaxConcurrent: 1, MaxWait: -1},
		"Options.QPS is -1":                      {MaxConcurrent: 1, QPS: -1},
		"Options.QPS is NaN":                     {MaxConcurrent: 1, QPS: math.NaN()},
		"Options.Burst is -1":                    {MaxConcurrent: 1, Burst: -1},
		"Options.Breaker: protection: BreakerOp": {MaxConcurrent: 1, Breaker: protection.BreakerOptions{MinCalls: -1}},
	} {
		g, err := dbguard.Open("tcp(127.0.0.1:1)/", o)
		assert.True(t, g == nil && err != nil && strings.Contains(err.Error(), field), field, ", got ", err)
	}
}

func TestOpenDoesNotDial(t *testing.T) {
	t.Parallel()
	g, err := dbguard.Open("user:pw@tcp(192.0.2.1:3306)/shop", dbguard.Options{MaxConcurrent: 1})
	assert.NoError(t, err)
	assert.NoError(t, g.Close(t.Context()))
}

func TestMalformedDSNIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dsn, want string }{
		{"user:s3cret@tcp(db)/shop?parseTime=perhaps", "invalid bool value: perhaps"},
		{"user:s3cret@tcp(db", "invalid DSN: missing the slash"},
		{"user:s3cret@tcp(db/shop", "invalid DSN: network address not terminated"},
		{"user:1/s3cret%zz@tcp(db)", "not shown"},
		{"user:1/?parseTime=s3cret@tcp(db)", "not shown"},
		{"user:1@2/s3cret%zz@tcp(db)", "not shown"},
		{"user:s3cret@unknown/shop", "default addr for network 'unknown' unknown"},
		{"user:s3cret@tcp(db)/shop?tls=nosuch", "nosuch"},
	} {
		_, err := dbguard.Open(c.dsn, dbguard.Options{MaxConcurrent: 1})
		assert.Error(t, err, c.dsn)
		assert.True(t, strings.HasPrefix(err.Error(), "dbguard: DSN: ") && strings.Contains(err.Error(), c.want), err)
		assert.True(t, !strings.Contains(err.Error(), "s3cret"), err)
	}
}

func TestOptionsStayTheCallers(t *testing.T) {
	t.Parallel()
	o := dbguard.Options{Name: "db", MaxConcurrent: 2}
	g, err := dbguard.Open("/", o)
	assert.NoError(t, err)
	assert.NoError(t, g.Close(context.Background()))
	assert.Equal(t, o, dbguard.Options{Name: "db", MaxConcurrent: 2})
}
