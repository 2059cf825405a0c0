package dbguard_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/assert"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
	"github.com/snowshed-go/snowshed/internal/testutil"
)

func TestMain(m *testing.M) { os.Exit(testutil.Main(m)) }

// advance lets d pass on the clock of a synctest bubble.
func advance(d time.Duration) { <-time.NewTimer(d).C }

// newServer returns an in-memory server with a table of users, 1 to 3.
func newServer(t *testing.T, c mysqltest.Capacity) *mysqltest.Server {
	t.Helper()
	s, err := mysqltest.New(mysqltest.Options{InMemory: true, Capacity: c})
	assert.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	users := s.Table("users", "id", "name")
	users.Set(1, "Ada")
	users.Set(2, "Grace")
	users.Set(3, "Barbara")
	return s
}

// guard opens a guard of a server, to be closed when the test ends.
func guard(t *testing.T, s *mysqltest.Server, o dbguard.Options) *dbguard.Guard {
	t.Helper()
	if o.Dial == nil {
		o.Dial = s.DialFunc
	}
	return guardDSN(t, s.DSN()+"?interpolateParams=true", o)
}

func guardDSN(t *testing.T, dsn string, o dbguard.Options) *dbguard.Guard {
	t.Helper()
	g, err := dbguard.Open(dsn, o)
	assert.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		assert.NoError(t, g.Close(ctx))
	})
	return g
}

const byID = "SELECT name FROM users WHERE id = ?"

func scanName(s dbguard.Scanner) (name string, err error) {
	err = s.Scan(&name)
	return name, err
}
