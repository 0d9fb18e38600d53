/*
Package client is a PMI-1 client in Go, the counterpart of package pmiserver. --selftest, tests and
load generators use it.

	c := client.New(conn)
	c.Init()
	c.Put("card-0", "10.0.0.7:4711")
	c.Barrier()
	card, found, err := c.Get("card-1")
	c.Barrier()
	c.Finalize()

The client is as strict as the strictest real client: it accepts a reply only if the reply begins with the expected
command. It has no timeouts. Only one goroutine may use it.
*/
package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Client is a PMI-1 client that uses one connection, as the MPI library of a rank does.
type Client struct {
	// Name is the group's key-value space, set by Init.
	Name string

	conn io.Writer
	in   *bufio.Reader
	line []byte // the current request; the buffer is reused
}

// New returns a client that has sent nothing yet.
func New(conn io.ReadWriter) *Client {
	return &Client{conn: conn, in: bufio.NewReader(conn)}
}

// RoundTrip sends a line and returns the reply line without its line end. The result is valid until
// the next call.
func (c *Client) RoundTrip(line string) ([]byte, error) {
	c.line = append(append(c.line[:0], line...), '\n')
	return c.roundTrip()
}

// roundTrip sends c.line and waits for a reply line.
func (c *Client) roundTrip() ([]byte, error) {
	if err := c.send(); err != nil {
		return nil, err
	}
	return c.receive()
}

func (c *Client) send() error {
	if _, err := c.conn.Write(c.line); err != nil {
		return fmt.Errorf("pmi: ask: %w", err)
	}
	return nil
}

func (c *Client) receive() ([]byte, error) {
	reply, err := c.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		head, rest := bytes.Clone(reply), []byte(nil) // ReadSlice fills its buffer again
		rest, err = c.in.ReadBytes('\n')
		reply = append(head, rest...)
	}
	if err != nil {
		return nil, fmt.Errorf("pmi: no reply to %q: %w", c.line, err)
	}
	return reply[:len(reply)-1], nil
}

// roundTripChecked sends a request and returns the rest of the reply after its command. answer is the expected command.
// It returns an error if the reply has another command, or an rc other than 0.
func (c *Client) roundTripChecked(request, answer string) (string, error) {
	reply, err := c.RoundTrip(request)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(string(reply), "cmd="+answer)
	if !ok || rest != "" && rest[0] != ' ' {
		return "", fmt.Errorf("pmi: the reply to %q is %q, which is not expected", request, reply)
	}
	if rc := field(rest, "rc"); rc != "0" && rc != "" {
		return "", fmt.Errorf("pmi: %q failed: %q", request, reply)
	}
	return rest, nil
}

// field returns the value of a field in a reply. The value ends at the next space.
func field(answer, key string) string {
	for token := range strings.SplitSeq(answer, " ") {
		if k, v, _ := strings.Cut(token, "="); k == key {
			return v
		}
	}
	return ""
}

// requestNumber sends a request and returns the value of a numeric field of the reply. answer is the expected command
// of the reply, and key is the name of the field.
func (c *Client) requestNumber(request, answer, key string) (int, error) {
	rest, err := c.roundTripChecked(request, answer)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(field(rest, key))
}

// RankAndSize is the number of a rank and the size of its group.
type RankAndSize struct{ Rank, Size int }

// Acknowledge sends initack with the client's PMI_ID, and returns the rank and group size from the reply. A client that
// has connected through PMI_PORT must call it before Init.
func (c *Client) Acknowledge(id int) (p RankAndSize, err error) {
	if _, err := c.roundTripChecked("cmd=initack pmiid="+strconv.Itoa(id), "initack"); err != nil {
		return p, err
	}
	for _, what := range []string{"size", "rank", "debug"} {
		line, err := c.receive()
		if err != nil {
			return p, err
		}
		n, err := strconv.Atoi(strings.TrimPrefix(string(line), "cmd=set "+what+"="))
		switch {
		case err != nil:
			return p, fmt.Errorf("pmi: received %q instead of a line that sets %s", line, what)
		case what == "size":
			p.Size = n
		case what == "rank":
			p.Rank = n
		}
	}
	return p, nil
}

// Init sends the requests with which an MPI library begins, in the same order.
func (c *Client) Init() error {
	if _, err := c.roundTripChecked("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return err
	}
	if _, err := c.roundTripChecked("cmd=get_maxes", "maxes"); err != nil {
		return err
	}
	rest, err := c.roundTripChecked("cmd=get_my_kvsname", "my_kvsname")
	c.Name = field(rest, "kvsname")
	return err
}

// AppNum returns the index of the rank's app context on the command line.
func (c *Client) AppNum() (int, error) { return c.requestNumber("cmd=get_appnum", "appnum", "appnum") }

// Put stores a pair. After the next barrier, all ranks can get it.
func (c *Client) Put(key, value string) error {
	_, err := c.roundTripChecked("cmd=put kvsname="+c.Name+" key="+key+" value="+value, "put_result")
	return err
}

// Get returns the value of a key.
func (c *Client) Get(key string) (value string, found bool, err error) {
	raw, err := c.GetBytes(key)
	return string(raw), raw != nil, err
}

// GetBytes does the same as Get, but does not allocate memory. The value is valid until the next call. It is nil if
// there is no such key.
func (c *Client) GetBytes(key string) ([]byte, error) {
	c.line = append(append(c.line[:0], "cmd=get kvsname="...), c.Name...)
	c.line = append(append(c.line, " key="...), key...)
	c.line = append(c.line, '\n')
	reply, err := c.roundTrip()
	if err != nil {
		return nil, err
	}
	head, value, found := bytes.Cut(reply, []byte(" value="))
	switch {
	case !bytes.HasPrefix(head, []byte("cmd=get_result rc=")):
		return nil, fmt.Errorf("pmi: the reply to %q is %q, which is not expected", c.line, reply)
	case !found || !bytes.HasPrefix(head, []byte("cmd=get_result rc=0")):
		return nil, nil
	}
	return value, nil
}

// Barrier waits until all ranks of the group have entered the barrier.
func (c *Client) Barrier() error {
	_, err := c.roundTripChecked("cmd=barrier_in", "barrier_out")
	return err
}

// Exchange sends the requests that MPI_Init sends: it puts a key with the given value, enters a barrier, gets the
// values of all ranks, and enters another barrier. All ranks of the group must call it, with values of the same length.
func (c *Client) Exchange(rank, size int, card string) error {
	if err := c.Put("card-"+strconv.Itoa(rank), card); err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	var key []byte
	for other := range size {
		key = strconv.AppendInt(append(key[:0], "card-"...), int64(other), 10)
		got, err := c.GetBytes(string(key))
		if err != nil || len(got) != len(card) {
			return fmt.Errorf("pmi: %s: %q: %v", key, got, err)
		}
	}
	return c.Barrier()
}

// A Program describes a program that Spawn starts.
type Program struct {
	Argv  []string // the program first
	Count int
	Info  [][2]string // pairs of key and value
}

// Spawn requests the start of programs. preputs are key-value pairs that the started programs find in their key-value
// space. The error says why the programs were not started.
func (c *Client) Spawn(preputs [][2]string, programs ...Program) error {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	for i, p := range programs {
		line("mcmd", "spawn")
		line("nprocs", p.Count)
		line("execname", p.Argv[0])
		line("totspawns", len(programs))
		line("spawnssofar", i+1)
		line("argcnt", len(p.Argv)-1)
		for n, arg := range p.Argv[1:] {
			line("arg"+strconv.Itoa(n+1), arg)
		}
		if i == 0 {
			writePairs(line, "preput_num", "preput_key_", "preput_val_", preputs)
		}
		writePairs(line, "info_num", "info_key_", "info_val_", p.Info)
		b.WriteString("endcmd\n")
	}
	_, err := c.roundTripChecked(strings.TrimSuffix(b.String(), "\n"), "spawn_result")
	return err
}

func writePairs(line func(string, any), count, key, value string, list [][2]string) {
	line(count, len(list))
	for i, p := range list {
		line(key+strconv.Itoa(i), p[0])
		line(value+strconv.Itoa(i), p[1])
	}
}

// Publish publishes a port under a name.
func (c *Client) Publish(service, port string) error {
	_, err := c.roundTripChecked("cmd=publish_name service="+service+" port="+port, "publish_result")
	return err
}

// Lookup returns the port published under a name.
func (c *Client) Lookup(service string) (port string, err error) {
	rest, err := c.roundTripChecked("cmd=lookup_name service="+service, "lookup_result")
	_, port, _ = strings.Cut(rest, " port=")
	return port, err
}

// Unpublish removes a published name.
func (c *Client) Unpublish(service string) error {
	_, err := c.roundTripChecked("cmd=unpublish_name service="+service, "unpublish_result")
	return err
}

// Hosts sends get_ranks2hosts, as old clients do. It returns both lines of the reply, with " | "
// between them (pmi-wire.md 2.9).
func (c *Client) Hosts() (string, error) {
	head, err := c.RoundTrip("cmd=get_ranks2hosts")
	if err != nil || !bytes.HasPrefix(head, []byte("put_ranks2hosts ")) {
		return "", errors.Join(err, fmt.Errorf("pmi: %q", head))
	}
	first := string(head)
	table, err := c.receive()
	return first + " | " + string(table), err
}

// Finalize tells the server that the client sends no more requests. The caller may close the connection afterwards.
func (c *Client) Finalize() error {
	_, err := c.roundTripChecked("cmd=finalize", "finalize_ack")
	return err
}

// Abort asks the server to end the job with the given exit code. There is no reply.
func (c *Client) Abort(code int, message string) error {
	c.line = append(c.line[:0], "cmd=abort exitcode="+strconv.Itoa(code)...)
	if message != "" {
		c.line = append(c.line, " message="+message...)
	}
	c.line = append(c.line, '\n')
	return c.send()
}
