package dbguard_test

import (
	"context"
	"errors"
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
	const hidden = "not shown"
	for _, c := range []struct{ dsn, want string }{
		{"user:s3cret@tcp(db)/shop?parseTime=perhaps", hidden},
		{"user:s3cret@tcp(db)/shop?timeout=s3cret", hidden},
		{"user:s3cret@tcp(db)/shop?x=%zz", hidden},
		{"user:s3cret@tcp(db", "invalid DSN: missing the slash"},
		{"user:s3cret@tcp(db/shop", "invalid DSN: network address not terminated"},
		{"s3cret", "invalid DSN: missing the slash"},
		{"user:s3cret@unknown/shop", hidden},
		{"user:s3cret@tcp(db)/shop?tls=nosuch", hidden},
		{"user:s3cret@tcp(db)/shop%zzs3cret", hidden},

		// Without an @, and without parentheses.
		{"user:s3cret/shop", hidden},
		{"user:s3cret(db:1)/shop", "user:password@tcp(host:port)/name"},
		{"user:s3cret@db:3306/shop", hidden},
		{"user:s3cret@db:3306(db)/shop", "user:password@tcp(host:port)/name"},
		{"mysql://user:s3cret@db:3306/shop", hidden},

		// Without the slash, but with one in the password.
		{"user:1/s3cret%zz@tcp(db)", "%40"},
		{"user:1/?parseTime=s3cret@tcp(db)", "%40"},
		{"user:1@2/s3cret%zz@tcp(db)", "%40"},
		{"user:1@tcp(s3cret)/2@tcp(db)", "%40"},
		{"user:1@s3cret(x)/?2@tcp(db)", "%40"},
		{"user:s3(cret/1(db)", "invalid DSN: network address not terminated"},
		{"/s3cret@tcp(db)", "%40"},
	} {
		g, err := dbguard.Open(c.dsn, dbguard.Options{MaxConcurrent: 1})
		assert.True(t, g == nil && err != nil, c.dsn)
		assert.True(t, strings.HasPrefix(err.Error(), "dbguard: DSN: ") && strings.Contains(err.Error(), c.want), c.dsn, ": ", err)
		for ; err != nil; err = errors.Unwrap(err) {
			assert.True(t, !strings.Contains(err.Error(), "s3cret") && !strings.Contains(err.Error(), "cret/"), err)
		}
	}
}

func TestErrorsOfADialNameNoPassword(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"user:s3cret@tcp(127.0.0.1:1)/shop", "user:s3/cr@e(t@tcp(127.0.0.1:1)/shop", "user:s3cret@unix(/no/such.sock)/", "user:s3cret@nosuch(db)/a%40b",
	} {
		g := guardDSN(t, dsn, dbguard.Options{MaxConcurrent: 1})
		err := g.DB().PingContext(t.Context())
		assert.Error(t, err)
		for ; err != nil; err = errors.Unwrap(err) {
			assert.True(t, !strings.Contains(err.Error(), "s3") && !strings.Contains(err.Error(), "e(t"), err)
		}
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
