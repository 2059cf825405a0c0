package main

import (
	"os"

	"github.com/alicebob/miniredis/v2"
	"github.com/snowshed-go/snowshed/internal/mysqltest"
)

// servers returns the addresses in MYSQL_DSN and REDIS_ADDR. For those that are not set it starts a miniredis and a
// simulator of MySQL, which knows one user.
func servers() (dsn, redisAddr string) {
	if dsn, redisAddr = os.Getenv("MYSQL_DSN"), os.Getenv("REDIS_ADDR"); dsn == "" {
		db, err := mysqltest.New(mysqltest.Options{})
		check(err)
		db.Table("users", "id", "name").Set(int64(42), "Ada")
		dsn = db.DSN()
	}
	if redisAddr == "" {
		m, err := miniredis.Run()
		check(err)
		redisAddr = m.Addr()
	}
	return dsn, redisAddr
}
