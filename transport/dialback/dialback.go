/*
Package callback has helpers call their mpiexec: where a batch system's starter starts all of them by one
step, whose input all have and whose outputs come back in one (RM-37), or each by a program that is better not trusted with all
the bytes of a job (RM-36).

	mpiexec                                        helper, one on each host
	   | Invitation, by the starter's input -------->   the same for all
	   | <------------------------------- TCP, TLS 1.3   to the certificate of the Invitation, and no other
	   | <---------------------------------- its proof   host, and what only who has the token can make of
	   |                                                 this very connection
	   | welcome, or why not ----------------------->
	   | <======================================>        the helper's own stream

A Desk is mpiexec's side: one port, open until all who were invited have called, or are waited for no more.
Who else connects is a stranger until it has proved the contrary: strangers are few at a time, have a time, and
keep nobody from coming in. Call is the helper's.

Who cannot call says so by the stream that the Invitation came by, and ends, or goes on there if that is his alone
(Invitation.Streams).

Neither the token nor the private key is ever on a command line, in a file or in an environment. Whoever can read the
step's input can read the token: it goes where arguments and environment of ranks go without this package.
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

// A JoinToken is all that a helper needs to call.
type JoinToken struct {
	Certificate [32]byte         // SHA-256 of mpiexec's, made for this step
	Token       [32]byte         // random
	Addresses   []netip.AddrPort // of mpiexec, 1 to maxAddresses
	Streams     bool             // who cannot call speaks over the streams by which this came; else he ends
}

const (
	tokenHead    = "remshell-invitation 2"
	maxAddresses = 16
	maxLine      = 128 // bytes of a line of it
)

// Text is the invitation as it is sent.
func (i JoinToken) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\ncertificate %x\ntoken %x\n", tokenHead, i.Certificate, i.Token)
	for _, a := range i.Addresses {
		fmt.Fprintf(&b, "address %s\n", a)
	}
	b.WriteString(tokenEnd[i.Streams] + "\n")
	return b.String()
}

// tokenEnd is the last line of an invitation, by Streams.
var tokenEnd = map[bool]string{false: "end", true: "streams"}

var errJoinToken = errors.New("what came is no invitation of mpiexec's")

// ReadJoinToken reads one, and perhaps some of what comes behind it. It takes no more than an invitation
// may be.
func ReadJoinToken(r io.Reader) (JoinToken, error) {
	var i JoinToken
	in := bufio.NewReaderSize(r, maxLine)
	if word, _, err := readTokenLine(in); err != nil || word != tokenHead {
		return i, errors.Join(errJoinToken, err)
	}
	for _, part := range []struct {
		name string
		to   *[32]byte
	}{{"certificate", &i.Certificate}, {"token", &i.Token}} {
		word, value, err := readTokenLine(in)
		if err != nil || word != part.name || len(value) != 64 {
			return i, errors.Join(errJoinToken, err)
		}
		if _, err := hex.Decode(part.to[:], []byte(value)); err != nil {
			return i, errors.Join(errJoinToken, err)
		}
	}
	for len(i.Addresses) <= maxAddresses {
		word, value, err := readTokenLine(in)
		if i.Streams = word == tokenEnd[true]; err == nil && (i.Streams || word == tokenEnd[false]) && value == "" && len(i.Addresses) > 0 {
			return i, nil
		}
		address, bad := netip.ParseAddrPort(value)
		if err != nil || word != "address" || bad != nil || address.Port() == 0 {
			return i, errors.Join(errJoinToken, err)
		}
		i.Addresses = append(i.Addresses, address)
	}
	return i, errJoinToken
}

// readTokenLine is the next line, with what stands before its last word.
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
