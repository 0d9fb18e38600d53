/*
Package dialback lets helpers connect to their mpiexec. A starter is the program with which a batch system starts
helpers, such as srun. It may start all helpers in one step, in which it copies one input to all helpers and merges
their outputs (rule RM-37). Then the helpers need connections of their own. A helper that is started by a call of its
own also uses this package, if that starter cannot carry all data of a job (rule RM-36).

	mpiexec                                        helper, one on each host
	   | JoinToken, by the starter's input --------->   the same for all
	   | <------------------------------- TCP, TLS 1.3   the helper accepts only the certificate of the JoinToken
	   | <-------------------------------------- proof   the host's name, and a MAC of name and connection,
	   |                                                 keyed with the token
	   | accepted, or the reason for refusal -------->
	   | <=========================================>     from now on: the messages of this helper

A Listener is mpiexec's side. It has one port, which stays open as long as the Listener expects helpers. A connection is
pending until its helper has sent a valid proof. Pending connections are limited in number and time, and cannot keep a
helper from connecting. DialBack is the helper's side.

A helper that cannot connect reports this on the starter's stream, on which it received the JoinToken. If no
other helper uses that stream (JoinToken.Streams), the helper then uses the stream for all messages. Otherwise
the helper ends.

Except in the case described below, neither the token nor the private key of the certificate is on a command line, in a
file or in an environment. Only a process that can read the step's input can read the token. Such a process can read
the arguments and environment of the ranks anyway, which are sent the same way.

The exception is a starter that passes no input to the helper. Such a starter takes the JoinToken as an argument of its
program, which other users can read. Then the token is not secret, and the key of the proof is an HMAC of the token. The
HMAC is keyed with a secret of the batch job. All processes of the job have this secret in their environment
(JoinToken.Secret, rule RM-38).
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

// A JoinToken contains all that a helper needs to connect to mpiexec and to prove that it belongs to the job.
type JoinToken struct {
	Certificate [32]byte         // SHA-256 of mpiexec's certificate, which is made for this step
	Token       [32]byte         // random secret
	Addresses   []netip.AddrPort // addresses of mpiexec, 1 to maxAddresses
	Streams     bool             // a helper that cannot connect uses the stream on which this came; if false, it ends

	// Secret, if not empty, is an environment variable whose value only the processes of the job know. Then Token is
	// random but not secret, and others may read the JoinToken. The key of the proof is made of both.
	Secret string
}

const (
	tokenHead    = "remshell-invitation 2"
	maxAddresses = 16
	maxLine      = 128 // bytes of one line
)

// Text returns the token in the form in which it is sent.
func (t JoinToken) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\ncertificate %x\ntoken %x\n", tokenHead, t.Certificate, t.Token)
	for _, a := range t.Addresses {
		fmt.Fprintf(&b, "address %s\n", a)
	}
	if t.Secret != "" {
		fmt.Fprintf(&b, "%s %s\n", secretWord, t.Secret)
	}
	b.WriteString(tokenEnd[t.Streams] + "\n")
	return b.String()
}

// tokenEnd maps each value of Streams to the last line of a token.
var tokenEnd = map[bool]string{false: "end", true: "streams"}

// secretWord is the first word of the line that contains JoinToken.Secret.
const secretWord = "secret"

var errJoinToken = errors.New("the data received is not a join token of mpiexec")

// ReadJoinToken reads a token. It may consume bytes that follow the token, but does not read more lines than
// a token may have.
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
	for range maxAddresses + 2 {
		word, value, err := readTokenLine(in)
		if t.Streams = word == tokenEnd[true]; err == nil && (t.Streams || word == tokenEnd[false]) && value == "" && len(t.Addresses) > 0 {
			return t, nil
		}
		if err == nil && word == secretWord && value != "" && t.Secret == "" {
			t.Secret = value
			continue
		}
		address, bad := netip.ParseAddrPort(value)
		if err != nil || word != "address" || bad != nil || address.Port() == 0 || len(t.Addresses) == maxAddresses {
			return t, errors.Join(errJoinToken, err)
		}
		t.Addresses = append(t.Addresses, address)
	}
	return t, errJoinToken
}

// readTokenLine returns the first word of the next line, and the rest of the line.
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
