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

// replyTimeout is how long a guest waits for an answer, after which the server hangs.
const replyTimeout = 30 * time.Second

// A Client speaks to the server of a rank, as what its environment says it is.
type Client struct {
	address   string // HOST:PORT
	namespace string
	rank      uint32
	uid, gid  uint32
}

// NewClient reads the environment of a rank (pmix-wire.md 3.3).
func NewClient(getenv func(string) string) (*Client, error) {
	_, address, found := strings.Cut(getenv("PMIX_SERVER_URI3"), ";tcp4://")
	rank, err := strconv.ParseUint(getenv("PMIX_RANK"), 10, 32)
	if !found || err != nil {
		return nil, errors.New("no PMIX_SERVER_URI3 and PMIX_RANK")
	}
	return &Client{address, getenv("PMIX_NAMESPACE"), uint32(rank), uint32(os.Geteuid()), uint32(os.Getegid())}, nil
}

// Dial opens a connection that says nothing.
func (g *Client) Dial() (net.Conn, error) { return net.Dial("tcp", g.address) }

// Namespace stands for a guest's own one in the messages that it says, if it is of the first group; with
// another number behind it, for that of another group of its job.
const Namespace = "rs-ffffffffffffffff-0"

// RunScript sends what each line of the script says, on a connection of its own, and writes what
// came of it:
//
//	handshake HEX   "closed", or "status -12" where that is the first word of the answer
//	message HEX     the same, behind a handshake that is right
//
// A handshake that was recorded is made the guest's own: its credential and its namespace, if
// it is that of the recording.
func (g *Client) RunScript(script io.Reader, out io.Writer) error {
	for lines := bufio.NewScanner(script); lines.Scan(); {
		where, digits, _ := strings.Cut(lines.Text(), " ")
		text, err := hex.DecodeString(digits)
		if err != nil {
			return err
		}
		var answer string
		if where == "handshake" {
			answer, err = g.handshake(g.withOwnName(text))
		} else {
			answer, err = g.sendRequest(text)
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(out, answer)
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
	if _, err := io.CopyN(io.Discard, conn, message.HeaderSize+4); err != nil { // and the count
		return "closed", nil
	}
	return status(conn)
}

// send opens a connection and says something.
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

// status reads one, or that there is none.
func status(conn net.Conn) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(conn, b[:]); errors.Is(err, os.ErrDeadlineExceeded) {
		return "", err
	} else if err != nil {
		return "closed", nil
	}
	return fmt.Sprintf("status %d", int32(binary.BigEndian.Uint32(b[:]))), nil
}

// hello is a handshake that is right.
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

// withOwnName makes a recorded handshake the guest's.
func (g *Client) withOwnName(hello []byte) []byte {
	const recorded, nobody = "rs-21fa-1\x00", "native\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"
	mine := g.hello()[message.HeaderSize:][:len(nobody)]
	own := bytes.Replace(hello, []byte(nobody), mine, 1)
	if bytes.Contains(own, []byte(recorded)) {
		own = bytes.Replace(own, []byte(recorded), []byte(g.namespace+"\x00"), 1)
		size := own[8:] // of the body
		binary.NativeEndian.PutUint32(size, binary.NativeEndian.Uint32(size)+uint32(len(own)-len(hello)))
	}
	return own
}
