package mysqltest

import (
	"context"
	"encoding/binary"
)

const (
	clientConnectWithDB  = 1 << 3
	clientProtocol41     = 1 << 9
	clientSecureConn     = 1 << 15
	clientPluginAuth     = 1 << 19
	clientConnectAttrs   = 1 << 20
	clientLenEncAuthData = 1 << 21
	clientDeprecateEOF   = 1 << 24

	// capabilities are those and LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, TRANSACTIONS, MULTI_RESULTS, PS_MULTI_RESULTS.
	capabilities = clientConnectWithDB | clientProtocol41 | clientSecureConn | clientPluginAuth | clientConnectAttrs |
		clientLenEncAuthData | clientDeprecateEOF | 1 | 1<<1 | 1<<2 | 1<<13 | 1<<17 | 1<<18
)

// login is what a client says of itself.
type login struct {
	capabilities uint64
	user, db     string
	attrs        map[string]string
}

// handshake greets the client and accepts whoever answers.
func (c *session) handshake(ctx context.Context) error {
	c.reply.status = statusAutocommit
	c.reply.write(greeting(c.srv.opts, c.id))
	if err := c.reply.flush(); err != nil {
		return err
	}
	p, err := c.receive(ctx)
	if err != nil {
		return err
	}
	c.reply.sequence = p.sequence + 1
	who, ok := parseLogin(p.payload)
	if p.err != nil || !ok {
		c.reply.error(errorf(1043, "Bad handshake"))
		_ = c.reply.flush() // it ends here either way
		return errMalformed
	}
	c.reply.deprecateEOF = who.capabilities&clientDeprecateEOF != 0
	c.srv.loggedIn(c, who)
	c.reply.ok(0, 0)
	return c.reply.flush()
}

// greeting is the payload of a handshake of version 10. Passwords are not checked, so the challenge may be constant.
func greeting(o Options, id uint32) []byte {
	const challenge = "8bytes__and_12_more_"
	le := binary.LittleEndian
	b := append([]byte{10}, o.Version...)
	b = append(b, 0)
	b = le.AppendUint32(b, id)
	b = append(b, challenge[:8]...)
	b = append(b, 0)
	b = le.AppendUint16(b, capabilities&0xffff)
	b = append(b, charsetUTF8)
	b = le.AppendUint16(b, statusAutocommit)
	b = le.AppendUint16(b, capabilities>>16)
	b = append(b, byte(len(challenge)+1))
	b = append(b, make([]byte, 10)...) // reserved
	b = append(b, challenge[8:]...)
	b = append(b, 0)
	b = append(b, o.AuthPlugin...)
	return append(b, 0)
}

// parseLogin reads a client's answer to the greeting.
func parseLogin(payload []byte) (login, bool) {
	in := cursor{rest: payload}
	var who login
	who.capabilities = in.uint(4) & capabilities
	in.bytes(4 + 1 + 23) // maximum packet, charset, reserved
	who.user = in.text()
	if who.capabilities&clientLenEncAuthData != 0 {
		in.lenBytes()
	} else {
		in.bytes(in.uint(1))
	}
	if who.capabilities&clientConnectWithDB != 0 && len(in.rest) > 0 {
		who.db = in.text()
	}
	if who.capabilities&clientPluginAuth != 0 && len(in.rest) > 0 {
		in.text()
	}
	if who.capabilities&clientConnectAttrs != 0 && len(in.rest) > 0 {
		attrs := cursor{rest: in.lenBytes()}
		who.attrs = make(map[string]string)
		for len(attrs.rest) > 0 && !attrs.bad {
			name := string(attrs.lenBytes())
			who.attrs[name] = string(attrs.lenBytes())
		}
		in.bad = in.bad || attrs.bad
	}
	return who, !in.bad && who.capabilities&clientProtocol41 != 0
}
