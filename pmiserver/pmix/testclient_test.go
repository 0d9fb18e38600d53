package pmix

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
)

// Numbers of commands (pmix-wire.md 6).
const (
	req, abort, commit, fenceOf, get, finalize = 0, 1, 2, 3, 4, 5
	spawnOf, regevents, deregevents, logOf     = 9, 13, 14, 16
)

const testUID, testSpace = 1001, "rs-0123456789abcdef-0"

// A reported is what a server has reported about a rank.
type reported struct {
	rank int
	what string
}

// newTestServer serves a group of size ranks without a port; the first ranks are on this node. Reports
// go to the channel, which never blocks.
func newTestServer(t testing.TB, size, here int) (*Server, chan reported) {
	t.Helper()
	reports := make(chan reported, 1<<10)
	s := &Server{UID: testUID, SocketOwner: func(net.Conn) (uint32, error) { return testUID, nil },
		Broken: func(err error) { reports <- reported{-1, "broken: " + err.Error()} },
		Note:   func(text string) { reports <- reported{-1, "note: " + text} }}
	s.makeReady()
	t.Cleanup(s.Close)
	s.AddGroup(testGroup(size, here, reports))
	return s, reports
}

func testGroup(size, here int, reports chan reported) Group {
	g := Group{Name: "k", Namespace: testSpace, Size: size,
		Job: func(context.Context) (jobinfo.Job, error) {
			return jobinfo.Job{Namespace: testSpace, Server: "srv", Nodes: []jobinfo.Node{{Name: "n1"}}, NodeOf: make([]int, size),
				Apps: []int{size}, Universe: size, FullUpTo: jobinfo.FullRanks}, nil
		},
		Events: Events{
			Abort: func(rank, code int, text string) bool {
				reports <- reported{rank, "abort " + text}
				return text != "unheard"
			},
			Lost: func(rank int, why error) { reports <- reported{rank, "lost"} },
			Junk: func(rank int, why error) { reports <- reported{rank, "junk: " + why.Error()} },
			Note: func(rank int, text string) { reports <- reported{rank, "note: " + text} },
			Print: func(_ context.Context, rank int, text message.LogText) {
				reports <- reported{rank, "print: " + text.Text}
			},
		}}
	for rank := range here {
		g.Ranks = append(g.Ranks, rank)
	}
	return g
}

// A testClient is a PMIx client that sends raw messages.
type testClient struct {
	t    testing.TB
	conn net.Conn
	tag  uint32
}

// handshake returns a handshake; change, if not nil, may alter it.
func handshake(namespace string, rank uint32, change func(*message.Handshake)) []byte {
	h := message.Handshake{Security: "native", UID: testUID, GID: testUID, Namespace: namespace, Rank: bfrops.Rank(rank), Version: "4.2.2rc2",
		Encoding: "v3", BufferType: bfrops.NonDescribed, Storage: "hash"}
	if change != nil {
		change(&h)
	}
	body := append([]byte(h.Security), 0)
	body = binary.BigEndian.AppendUint32(body, 8)
	body = binary.NativeEndian.AppendUint32(body, h.UID)
	body = binary.NativeEndian.AppendUint32(body, h.GID)
	body = append(append(append(body, h.Flag), h.Namespace...), 0)
	body = binary.BigEndian.AppendUint32(body, uint32(h.Rank))
	body = append(append(body, h.Version...), 0)
	body = append(append(body, h.Encoding...), 0)
	body = append(append(append(body, h.BufferType), h.Storage...), 0)
	head := []byte("\xff\xff\xff\xff\xff\xff\xff\xff")
	head = binary.NativeEndian.AppendUint32(head, uint32(len(body)))
	return append(append(head, 0, 0, 0, 0), body...)
}

// arrivals counts connections.
var arrivals atomic.Int64

// connectRaw opens a connection to a server and sends the first bytes.
func connectRaw(t *testing.T, s *Server, words []byte) *testClient {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	number := int(arrivals.Add(1))
	s.runTask(func() { s.serveConn(pendingConn{ours, number}) })
	c := &testClient{t: t, conn: theirs, tag: 100}
	c.write(words)
	return c
}

// join connects as a rank of the test group and completes the handshake.
func join(t *testing.T, s *Server, rank int) *testClient {
	t.Helper()
	c := connectRaw(t, s, handshake(testSpace, uint32(rank), nil))
	if status := c.welcome(); status != message.Success {
		t.Fatalf("rank %d is welcomed by %v", rank, status)
	}
	return c
}

// initialized connects as a rank and requests its job info.
func initialized(t *testing.T, s *Server, rank int) *testClient {
	t.Helper()
	c := join(t, s, rank)
	if info := c.request(body(req)); bfrops.NewReader(info).Namespace() != testSpace {
		t.Fatalf("rank %d got %x", rank, info)
	}
	return c
}

func (c *testClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// welcome reads the reply to a handshake. It returns Failed if there is none.
func (c *testClient) welcome() message.Status {
	var answer [8]byte
	if _, err := io.ReadFull(c.conn, answer[:]); err != nil {
		return message.Failed
	}
	return message.Status(int32(binary.BigEndian.Uint32(answer[:])))
}

// send sends a request, and returns its tag.
func (c *testClient) send(body []byte) uint32 {
	c.t.Helper()
	c.tag++
	c.write(append(message.AppendHeader(nil, c.tag, len(body)), body...))
	return c.tag
}

// receive reads a reply. body is nil if the connection has ended.
func (c *testClient) receive() (tag uint32, body []byte) {
	c.t.Helper()
	var head [message.HeaderSize]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return 0, nil
	}
	body = make([]byte, binary.BigEndian.Uint32(head[8:]))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		c.t.Fatal(err)
	}
	return binary.BigEndian.Uint32(head[4:]), body
}

// request sends a request and returns its reply.
func (c *testClient) request(body []byte) []byte {
	c.t.Helper()
	tag := c.send(body)
	answered, answer := c.receive()
	if answered != tag {
		c.t.Fatalf("request %d is answered as %d", tag, answered)
	}
	return answer
}

// status sends a request, and returns the status at the beginning of the reply.
func (c *testClient) status(body []byte) message.Status {
	c.t.Helper()
	return statusOf(c.request(body))
}

func statusOf(answer []byte) message.Status {
	return message.Status(bfrops.NewReader(answer).Status())
}

// body begins a request.
func body(command uint8) []byte { return bfrops.AppendByte(nil, command) }

// fenceBody is a FENCE request.
func fenceBody(list []bfrops.Proc, collect bool) []byte {
	var options []bfrops.Info
	if collect {
		options = append(options, bfrops.Info{Key: "pmix.collect", Value: bfrops.FlagOf(true)})
	}
	return bfrops.AppendInfos(bfrops.AppendProcs(body(fenceOf), list), options)
}

// all is the whole test group.
var all = procs(testSpace, bfrops.Wildcard)

// commitBody is a COMMIT request; the value of each key is the key.
func commitBody(scope message.Scope, keys ...string) []byte {
	var pairs []byte
	for _, key := range keys {
		pairs = bfrops.AppendPair(pairs, key, bfrops.TextOf(key))
	}
	return bfrops.AppendBuffer(bfrops.AppendByte(body(commit), uint8(scope)), pairs)
}

// getBody is a GET request.
func getBody(namespace string, rank bfrops.Rank, key string, options ...bfrops.Info) []byte {
	b := bfrops.AppendUint32(bfrops.AppendText(body(get), namespace), uint32(rank))
	return bfrops.AppendText(bfrops.AppendInfos(b, options), key)
}

// keysIn lists the keys in the reply to a Get, or nil if it has no data.
func keysIn(answer []byte) (keys []string) {
	r := bfrops.NewReader(answer)
	if r.Status() != 0 {
		return nil
	}
	for r.More() {
		inner := bfrops.NewReader(r.Blob())
		inner.Proc()
		for inner.More() {
			keys = append(keys, inner.Pair().Key)
		}
	}
	return keys
}
