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
	cfg, err := parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("dbguard: DSN: %w", err)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = dialTimeout
	}
	if dial != nil {
		cfg.DialFunc = dial
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("dbguard: DSN: %w", withoutQuotes(err))
	}
	return &dialer{connector: connector, timeout: cfg.Timeout}, nil
}

// parse reads a DSN. If it lacks an @ or a slash, a piece of the password may be taken for the network, the address or the
// database, and would be shown by the parser or when the server is dialled. Such DSNs are refused.
func parse(dsn string) (*mysql.Config, error) {
	if slash := strings.LastIndexByte(dsn, '/'); slash >= 0 && strings.Contains(dsn[slash:], "@") {
		return nil, errors.New("an @ stands behind the last slash: either the slash in front of the database's name is missing, or the @ must be written as %40")
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, withoutQuotes(err)
	}
	if strings.ContainsAny(cfg.Net, ":@") {
		return nil, errors.New("no network in front of the address: it must look like user:password@tcp(host:port)/name")
	}
	return cfg, nil
}

// withoutQuotes returns err if it is one of the parser's fixed texts. Others quote a piece of the DSN.
func withoutQuotes(err error) error {
	if strings.HasPrefix(err.Error(), "invalid DSN: ") {
		return err
	}
	return errors.New("an unknown network, or a parameter that cannot be (not shown, as it may hold a piece of the password): it must look like user:password@tcp(host:port)/name?parameter=value")
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
