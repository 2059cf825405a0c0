package testutil

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// databases counts the databases of this process; part of their names.
var databases atomic.Int64

var sharedMySQL = sync.OnceValues(func() (string, error) { return retried(startMySQL) })

// MySQL gives the DSN of an empty database on a real server, which is dropped when the test ends. The server is that of
// SNOWSHED_MYSQL_DSN, else a local mariadbd or mysqld that the tests of the process share.
func MySQL(tb testing.TB) string {
	tb.Helper()
	dsn := os.Getenv("SNOWSHED_MYSQL_DSN")
	if dsn == "" {
		local, err := sharedMySQL()
		dsn = require(tb, "mariadbd or mysqld", local, err)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		tb.Fatal("SNOWSHED_MYSQL_DSN is malformed") // the error would show the password
	}
	cfg.DBName = ""
	server := cfg.FormatDSN()
	name := fmt.Sprintf("snowshed_%d_%x_%d", os.Getpid(), time.Now().UnixNano(), databases.Add(1))
	if err := execOnce(server, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("create a database for the test: %v", err)
	}
	tb.Cleanup(func() {
		if err := execOnce(server, "DROP DATABASE "+name); err != nil {
			tb.Errorf("drop the database of the test: %v", err)
		}
	})
	cfg.DBName = name
	return cfg.FormatDSN()
}

// execOnce runs one statement on a connection of its own. A test that left a transaction open would block a drop for
// ever, hence the limit.
func execOnce(dsn, statement string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = db.ExecContext(ctx, statement)
	return err
}

// The account of the tests. It exists on a throw-away server that listens on the loopback interface only.
const createAccount = `CREATE USER 'snowshed'@'%' IDENTIFIED BY 'snowshed';
GRANT ALL PRIVILEGES ON *.* TO 'snowshed'@'%' WITH GRANT OPTION;
`

func startMySQL() (string, error) {
	binary, err := lookPath("mariadbd", "mysqld")
	if err != nil {
		return "", err
	}
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "snowshed-mysql-")
	if err != nil {
		return "", err
	}
	args, err := initMySQL(dir, binary)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	s, err := start(dir, binary, append(args, "--port="+ports[0])...)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = "snowshed", "snowshed"
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort("127.0.0.1", ports[0])
	ready := cfg.Clone()
	ready.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(ready)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	return cfg.FormatDSN(), s.await(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return db.PingContext(ctx)
	})
}

// initMySQL makes the data directory and gives the arguments to serve it. Durability is off: the data dies with the test.
func initMySQL(dir, binary string) ([]string, error) {
	version, err := exec.Command(binary, "--no-defaults", "--version").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w\n%s", binary, err, version)
	}
	data, initFile := filepath.Join(dir, "data"), filepath.Join(dir, "account.sql")
	if err := os.WriteFile(initFile, []byte(createAccount), 0o600); err != nil {
		return nil, err
	}
	common := []string{"--no-defaults", "--datadir=" + data, "--innodb-buffer-pool-size=32M"}
	if os.Geteuid() == 0 {
		common = append(common, "--user=root")
	}
	var create *exec.Cmd
	if strings.Contains(string(version), "MariaDB") {
		install, err := lookPath("mariadb-install-db", "mysql_install_db")
		if err != nil {
			return nil, err
		}
		common = append(common, "--innodb-log-file-size=8M")
		// force: the machine's own name need not resolve
		create = exec.Command(install, append(common, "--force", "--auth-root-authentication-method=normal", "--skip-test-db")...)
	} else {
		common = append(common, "--mysqlx=0")
		create = exec.Command(binary, append(common, "--initialize-insecure")...)
	}
	if output, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the data directory: %w\n%s", err, output)
	}
	return append(common,
		"--bind-address=127.0.0.1", "--socket=server.sock", "--pid-file=server.pid", "--init-file="+initFile,
		"--skip-log-bin", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
	), nil
}
