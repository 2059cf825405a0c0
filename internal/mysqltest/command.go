package mysqltest

import (
	"context"
	"net"
)

// Commands of the protocol.
const (
	comQuit         = 0x01
	comInitDB       = 0x02
	comQuery        = 0x03
	comPing         = 0x0e
	comPrepare      = 0x16
	comExecute      = 0x17
	comSendLongData = 0x18
	comCloseStmt    = 0x19
	comResetStmt    = 0x1a
	comResetConn    = 0x1f
)

// command runs a command and writes its answer. An error ends the session.
func (c *session) command(ctx context.Context, p packet) error {
	if p.err != nil {
		c.reply.error(Errno(1153))
		_ = c.reply.flush() // it ends here either way
		return p.err
	}
	if len(p.payload) == 0 {
		return errMalformed
	}
	body := p.payload[1:]
	switch p.payload[0] {
	case comQuit:
		return net.ErrClosed
	case comQuery:
		return c.query(ctx, parse(string(body)), nil, false)
	case comExecute:
		return c.executePrepared(ctx, body)
	case comPing:
		return c.perform(ctx, "PING", c.ping(), false)
	case comSendLongData:
		c.sendLongData(body)
		return nil
	case comCloseStmt:
		in := cursor{rest: body}
		delete(c.prepared, in.uint32())
		return nil
	case comPrepare:
		c.prepare(string(body))
	case comInitDB:
		c.setDB(string(body))
		c.reply.ok(0, 0)
	case comResetStmt:
		c.resetPrepared(body)
	case comResetConn:
		clear(c.prepared)
		c.reply.status = statusAutocommit
		c.setTransaction(false)
		c.reply.ok(0, 0)
	default:
		c.reply.error(Errno(1047))
	}
	return c.reply.flush()
}

func (c *session) executePrepared(ctx context.Context, body []byte) error {
	in := cursor{rest: body}
	p, ok := c.prepared[in.uint32()]
	if !ok {
		c.reply.error(Errno(1243))
		return c.reply.flush()
	}
	args, ok := p.bind(in.rest)
	if !ok {
		c.reply.error(Errno(1210))
		return c.reply.flush()
	}
	return c.query(ctx, p.statement, args, true)
}

func (c *session) resetPrepared(body []byte) {
	in := cursor{rest: body}
	p, ok := c.prepared[in.uint32()]
	if !ok {
		c.reply.error(Errno(1243))
		return
	}
	p.longData = nil
	c.reply.ok(0, 0)
}
