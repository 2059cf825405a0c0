package dbguard_test

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/snowshed-go/snowshed/dbguard"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// BenchmarkQuery compares a query through a guard with one through database/sql alone.
func BenchmarkQuery(b *testing.B) {
	s, err := mysqltest.New(mysqltest.Options{InMemory: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	s.Table("users", "id", "name").Set(1, "Ada")
	dsn := s.DSN() + "?interpolateParams=true"
	run := func(b *testing.B, db *sql.DB) {
		b.Helper()
		load := dbguard.QueryRow[int](db, byID, scanName)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := load(b.Context(), 1); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) {
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			b.Fatal(err)
		}
		cfg.DialFunc = s.DialFunc
		c, err := mysql.NewConnector(cfg)
		if err != nil {
			b.Fatal(err)
		}
		db := sql.OpenDB(c)
		defer db.Close()
		run(b, db)
	})
	b.Run("guarded", func(b *testing.B) {
		g, err := dbguard.Open(dsn, dbguard.Options{MaxConcurrent: 8, QPS: 1e9, Dial: s.DialFunc})
		if err != nil {
			b.Fatal(err)
		}
		defer g.Close(b.Context())
		run(b, g.DB())
	})
}
