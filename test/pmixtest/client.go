package pmixtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"remshell/pmiserver/pmix/message"
)

// replyTimeout is how long a Client waits for a reply before it returns an error.
const replyTimeout = 30 * time.Second

// A Client connects to the PMIx server as the rank that its environment variables describe.
type Client struct {
	address   string // HOST:PORT
	namespace string
	rank      uint32
	uid, gid  uint32
}

// NewClient returns a Client for the rank that the environment variables describe (pmix-wire.md 3.3).
func NewClient(getenv func(string) string) (*Client, error) {
	_, address, found := strings.Cut(getenv("PMIX_SERVER_URI3"), ";tcp4://")
	rank, err := strconv.ParseUint(getenv("PMIX_RANK"), 10, 32)
	if !found || err != nil {
		return nil, errors.New("no PMIX_SERVER_URI3 and PMIX_RANK")
	}
	return &Client{address, getenv("PMIX_NAMESPACE"), uint32(rank), uint32(os.Geteuid()), uint32(os.Getegid())}, nil
}

// Dial opens a connection to the server and sends nothing.
func (g *Client) Dial() (net.Conn, error) { return net.Dial("tcp", g.address) }

// Namespace in a message is replaced by the namespace of the client before it is sent. Another digit at
// its end gives the namespace of another group of the same job.
const Namespace = "rs-ffffffffffffffff-0"

// RunScript sends the message of each line of script, on a connection of its own, and writes the
// result to out:
//
//	handshake HEX   "closed", or "status -12" if the reply begins with that status
//	message HEX     the same, after a valid handshake
//
// In a recorded handshake, RunScript replaces the credential by the client's own; the namespace too, if
// it is the one of the recording.
func (g *Client) RunScript(script io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(script); lines.Scan(); {
		stage, digits, _ := strings.Cut(lines.Text(), " ")
		text, err := hex.DecodeString(digits)
		if err != nil {
			return err
		}
		var reply string
		if stage == "handshake" {
			reply, err = g.handshake(g.withOwnName(text))
		} else {
			reply, err = g.sendRequest(text)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, reply)
	}
	return nil
}

func (g *Client) handshake(hello []byte) (string, error) {
	conn, err := g.send(hello)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return status(conn)
}

func (g *Client) sendRequest(text []byte) (string, error) {
	conn, err := g.send(g.hello())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if answer, err := status(conn); err != nil || answer != "status 0" {
		return "", fmt.Errorf("a handshake that is right: %s %w", answer, err)
	}
	if _, err := io.CopyN(io.Discard, conn, 4); err != nil { // the index
		return "", err
	}
	if len(Namespace) == len(g.namespace) {
		digits := len(Namespace) - 1
		text = bytes.ReplaceAll(text, []byte(Namespace[:digits]), []byte(g.namespace[:digits]))
	}
	if _, err := conn.Write(text); err != nil {
		return "", err
	}
	if _, err := io.CopyN(io.Discard, conn, message.HeaderSize+4); err != nil { // and the count of the first pack
		return "closed", nil
	}
	return status(conn)
}

// send opens a connection and sends text.
func (g *Client) send(text []byte) (net.Conn, error) {
	conn, err := g.Dial()
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(replyTimeout))
	if _, err := conn.Write(text); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// status reads a status from a connection. It returns "closed" if the connection ends instead.
func status(conn net.Conn) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(conn, b[:]); errors.Is(err, os.ErrDeadlineExceeded) {
		return "", err
	} else if err != nil {
		return "closed", nil
	}
	return fmt.Sprintf("status %d", int32(binary.BigEndian.Uint32(b[:]))), nil
}

// hello returns a valid handshake of the client.
func (g *Client) hello() []byte {
	body := []byte("native\x00\x00\x00\x00\x08")
	body = binary.NativeEndian.AppendUint32(body, g.uid)
	body = binary.NativeEndian.AppendUint32(body, g.gid)
	body = append(append(append(body, 0), g.namespace...), 0)
	body = binary.BigEndian.AppendUint32(body, g.rank)
	body = append(body, "4.2.2\x00v3\x00\x01hash\x00"...)
	head := []byte("\xff\xff\xff\xff\xff\xff\xff\xff")
	head = binary.NativeEndian.AppendUint32(head, uint32(len(body)))
	return append(append(head, 0, 0, 0, 0), body...)
}

// withOwnName puts the client's credential and namespace into a recorded handshake.
func (g *Client) withOwnName(hello []byte) []byte {
	const recorded, noCredential = "rs-21fa-1\x00", "native\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"
	mine := g.hello()[message.HeaderSize:][:len(noCredential)]
	own := bytes.Replace(hello, []byte(noCredential), mine, 1)
	if bytes.Contains(own, []byte(recorded)) {
		own = bytes.Replace(own, []byte(recorded), []byte(g.namespace+"\x00"), 1)
		size := own[8:] // of the body
		binary.NativeEndian.PutUint32(size, binary.NativeEndian.Uint32(size)+uint32(len(own)-len(hello)))
	}
	return own
}
