/*
Package dialback lets helpers connect to their mpiexec. That is needed if a batch system's starter starts all
helpers by one step, which copies one input to all and merges their outputs (RM-37). It is also used if a starter
serves one host, but is not suited to carry all data of a job (RM-36).

	mpiexec                                        helper, one on each host
	   | JoinToken, by the starter's input --------->   the same for all
	   | <------------------------------- TCP, TLS 1.3   only with the certificate of the JoinToken
	   | <---------------------------------- its proof   host, and a MAC over this very connection, made
	   |                                                 with the token
	   | accepted, or why not ---------------------->
	   | <======================================>        the helper's own stream

A Listener is mpiexec's side: one port, open until all expected helpers have connected or are not expected any more.
Every connection is pending until its helper has sent a valid proof. Pending connections are limited in number and
time, and cannot keep a helper from connecting. DialBack is the helper's side.

A helper that cannot connect reports that on the stream by which the JoinToken came. Then it ends, or uses that
stream if it shares it with no other helper (JoinToken.Streams).

Neither the token nor the private key is ever on a command line, in a file or in an environment. Only somebody who can
read the step's input can read the token. Without this package, arguments and environment of ranks go the same way.
*/
package dialback

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// A JoinToken has everything that a helper needs to connect to mpiexec.
type JoinToken struct {
	Certificate [32]byte         // SHA-256 of mpiexec's certificate, which is made for this step
	Token       [32]byte         // random secret
	Addresses   []netip.AddrPort // addresses of mpiexec, 1 to maxAddresses
	Streams     bool             // a helper that cannot connect uses the stream on which this came; if false, it ends
}

const (
	tokenHead    = "remshell-invitation 2"
	maxAddresses = 16
	maxLine      = 128 // bytes of one line
)

// Text returns the token as it is sent.
func (t JoinToken) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\ncertificate %x\ntoken %x\n", tokenHead, t.Certificate, t.Token)
	for _, a := range t.Addresses {
		fmt.Fprintf(&b, "address %s\n", a)
	}
	b.WriteString(tokenEnd[t.Streams] + "\n")
	return b.String()
}

// tokenEnd is the last line of a token, by Streams.
var tokenEnd = map[bool]string{false: "end", true: "streams"}

var errJoinToken = errors.New("what came is no invitation of mpiexec's")

// ReadJoinToken reads a token. It may also consume some bytes behind it, and reads no more lines than a
// token may have.
func ReadJoinToken(r io.Reader) (JoinToken, error) {
	var t JoinToken
	in := bufio.NewReaderSize(r, maxLine)
	if word, _, err := readTokenLine(in); err != nil || word != tokenHead {
		return t, errors.Join(errJoinToken, err)
	}
	for _, part := range []struct {
		name string
		to   *[32]byte
	}{{"certificate", &t.Certificate}, {"token", &t.Token}} {
		word, value, err := readTokenLine(in)
		if err != nil || word != part.name || len(value) != 64 {
			return t, errors.Join(errJoinToken, err)
		}
		if _, err := hex.Decode(part.to[:], []byte(value)); err != nil {
			return t, errors.Join(errJoinToken, err)
		}
	}
	for len(t.Addresses) <= maxAddresses {
		word, value, err := readTokenLine(in)
		if t.Streams = word == tokenEnd[true]; err == nil && (t.Streams || word == tokenEnd[false]) && value == "" && len(t.Addresses) > 0 {
			return t, nil
		}
		address, bad := netip.ParseAddrPort(value)
		if err != nil || word != "address" || bad != nil || address.Port() == 0 {
			return t, errors.Join(errJoinToken, err)
		}
		t.Addresses = append(t.Addresses, address)
	}
	return t, errJoinToken
}

// readTokenLine returns the next line: its first word, and the rest.
func readTokenLine(in *bufio.Reader) (word, value string, err error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return "", "", err
	}
	text := string(line[:len(line)-1])
	if text == tokenHead {
		return text, "", nil
	}
	word, value, _ = strings.Cut(text, " ")
	return word, value, nil
}
