package dbguard

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// dialTimeout bounds a dial and its handshake when the DSN does not. The driver's own default is no bound at all.
const dialTimeout = 5 * time.Second

// dialer opens connections of the MySQL driver.
type dialer struct {
	connector driver.Connector
	timeout   time.Duration
}

// newDialer reads a DSN. It connects to nothing.
func newDialer(dsn string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*dialer, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, malformed(dsn, err)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = dialTimeout
	}
	if dial != nil {
		cfg.DialFunc = dial
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, malformed(dsn, err)
	}
	return &dialer{connector: connector, timeout: cfg.Timeout}, nil
}

// malformed says what is wrong with a DSN. But for its fixed texts, the parser quotes what stands after the last slash. If
// there is an @, that may be a piece of a password with a slash in it, and must not be shown.
func malformed(dsn string, err error) error {
	tail := dsn[strings.LastIndexByte(dsn, '/')+1:]
	if strings.Contains(tail, "@") && !strings.HasPrefix(err.Error(), "invalid DSN: ") {
		err = errors.New("invalid, and not shown because it may hold a password")
	}
	return fmt.Errorf("dbguard: DSN: %w", err)
}

// dial opens a connection, within the dial timeout: the driver applies that to the TCP connection only, and would wait
// for the greeting of a server that hangs for as long as ctx lives.
func (d *dialer) dial(ctx context.Context) (physical, error) {
	bounded, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c, err := d.connector.Connect(bounded)
	if err != nil {
		if bounded.Err() != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("dbguard: no connection within %v: %w", d.timeout, err)
		}
		return nil, err
	}
	p, ok := c.(physical)
	if !ok {
		return nil, errors.Join(fmt.Errorf("dbguard: the driver's connection %T lacks a method that the guard forwards", c), c.Close())
	}
	return p, nil
}
