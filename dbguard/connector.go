package dbguard

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/snowshed-go/snowshed/protection"
)

// connector is what database/sql connects with, and so where admission happens: it is the only place where a refusal
// reaches the caller as it is. For that, database/sql must come here for every use, so its own pool must stay empty: see
// [conn.IsValid].
type connector struct{ g *Guard }

// Connect admits the caller, then takes a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	permit, err := c.g.admission.Acquire(ctx)
	if err != nil {
		if errors.Is(err, protection.ErrRejected) {
			c.g.rejected.Add(1)
		}
		return nil, err
	}
	outcome := protection.Failure // stands if a dial function of the user's panics
	admitted := false
	defer func() {
		if !admitted {
			permit.Done(outcome)
		}
	}()
	s, err := c.g.pool.get(ctx)
	if err != nil {
		outcome = classifyDial(ctx, err)
		return nil, err
	}
	admitted = true
	return &conn{g: c.g, s: s, permit: permit}, nil
}

// Driver returns the MySQL driver.
func (c connector) Driver() driver.Driver { return c.g.driver }

// Close runs when the *sql.DB is closed.
func (c connector) Close() error {
	c.g.pool.close()
	return nil
}
