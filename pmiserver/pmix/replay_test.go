package pmix

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/jobinfo"
	"remshell/pmiserver/pmix/message"
	"remshell/test/pmitest"
	"remshell/test/pmixtest"
)

// A replayedConversation is a recorded conversation that is repeated with a server of ours.
type replayedConversation struct {
	server   *Server
	conns    map[string]*replayedConn               // by rank
	requests map[string]map[uint32]pmixtest.Message // by rank and tag
}

// A replayedConn is a connection that stores the replies by tag.
type replayedConn struct {
	conn net.Conn

	mu      sync.Mutex
	welcome []byte
	answers map[uint32][]byte
}

// The requests of unmodified clients, sent to our server in the order of time, get replies that decode
// to the recorded ones. For most ranks the recording lacks their commits; these are made from the
// replies to other ranks' Gets.
func TestRecordedConversations(t *testing.T) {
	for _, c := range pmixtest.Read(t).Conversations {
		t.Run(c.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { replay(t, c) })
		})
	}
}

func replay(t *testing.T, c pmixtest.Conversation) {
	r := &replayedConversation{server: newReplayServer(c), conns: make(map[string]*replayedConn), requests: make(map[string]map[uint32]pmixtest.Message)}
	defer r.server.Close()
	commits := commitsOf(c)
	for _, m := range c.Messages {
		r.sendRecorded(t, m, commits)
		synctest.Wait()
	}
	compared := 0
	for _, m := range c.Messages {
		if asked, found := r.requests[m.Rank][tagOf(m)]; m.Dir == "S" && found {
			r.compare(t, asked, m)
			compared++
		}
	}
	if compared < 7 {
		t.Errorf("only %d answers are compared", compared)
	}
	for rank, conn := range r.conns {
		if !bytes.HasPrefix(conn.welcome, []byte{0, 0, 0, 0}) {
			t.Errorf("%s is welcomed by %x", rank, conn.welcome)
		}
		conn.conn.Close()
	}
}

// sendRecorded sends a recorded request; for a recorded reply whose request is missing, it sends the
// commit.
func (r *replayedConversation) sendRecorded(t *testing.T, m pmixtest.Message, commits map[string][]byte) {
	switch {
	case m.Dir == "C" && m.Kind == "handshake":
		r.requests[m.Rank] = make(map[uint32]pmixtest.Message)
		r.open(m)
	case m.Dir == "C":
		r.requests[m.Rank][tagOf(m)] = m
		r.conns[m.Rank].send(t, m.Hex)
	case m.Kind == "reply to COMMIT" && r.requests[m.Rank][tagOf(m)].Kind == "":
		body := commits[m.Rank]
		if body == nil { // no rank got any data of it
			body = pmixtest.Encode(&message.Commit{})
		}
		r.conns[m.Rank].send(t, append(message.AppendHeader(nil, tagOf(m), len(body)), body...))
	}
}

// commitsOf makes, from the data that ranks of a conversation got of each other, one COMMIT request for
// each rank.
func commitsOf(c pmixtest.Conversation) map[string][]byte {
	names := make(map[string]string) // namespace to group, as in the recording
	for _, m := range c.Messages {
		if m.Dir == "C" && m.Kind == "handshake" {
			h, _ := message.ParseHandshake(m.Body())
			names[h.Namespace], _, _ = strings.Cut(m.Rank, ":")
		}
	}
	bodies := make(map[string][]byte)
	for _, m := range c.Messages {
		r := bfrops.NewReader(m.Hex[min(len(m.Hex), message.HeaderSize):])
		if m.Kind != "reply to GET" || r.Status() != 0 {
			continue
		}
		for r.More() {
			blob := r.Blob()
			of := bfrops.NewReader(blob).Proc()
			if of.Rank == bfrops.Wildcard {
				continue
			}
			part := message.CommitPart{Scope: message.ScopeLocal, Pairs: blob[len(bfrops.AppendProc(nil, of)):]}
			bodies[fmt.Sprintf("%s:%d", names[of.Namespace], of.Rank)] = pmixtest.Encode(&message.Commit{Parts: []message.CommitPart{part}})
		}
	}
	return bodies
}

func tagOf(m pmixtest.Message) uint32 {
	if len(m.Hex) < message.HeaderSize {
		return 0
	}
	return binary.BigEndian.Uint32(m.Hex[4:])
}

// newReplayServer serves the groups of a conversation, all on one node.
func newReplayServer(c pmixtest.Conversation) *Server {
	s := &Server{SocketOwner: func(net.Conn) (uint32, error) { return 0, nil }, Links: Links{Names: newNameTable()}}
	s.makeReady()
	ranks := make(map[string][]int)
	var spaces []string
	for _, m := range c.Messages {
		if m.Dir != "C" || m.Kind != "handshake" {
			continue
		}
		h, err := message.ParseHandshake(m.Body())
		if err != nil {
			panic(err)
		}
		if ranks[h.Namespace] == nil {
			spaces = append(spaces, h.Namespace)
		}
		if !slices.Contains(ranks[h.Namespace], int(h.Rank)) {
			ranks[h.Namespace] = append(ranks[h.Namespace], int(h.Rank))
		}
	}
	s.GroupFinder = namespaceFunc(func(group string) string { return spaces[group[1]-'0'] })
	coordinator := pmitest.NewFenceCoordinator()
	s.OtherNodes = coordinator.Node(0)
	for i, space := range spaces {
		coordinator.AddBlocks("k"+string(rune('0'+i)), len(ranks[space]), 0)
		here := slices.Sorted(slices.Values(ranks[space]))
		s.AddGroup(Group{Name: "k" + string(rune('0'+i)), Namespace: space, Size: len(here), Ranks: here, Spawner: &fakeSpawner{group: "k1"}, Events: Events{Print: func(context.Context, int, message.LogText) {}},
			Job: func(context.Context) (jobinfo.Job, error) {
				return jobinfo.Job{Namespace: space, Server: "srv", Nodes: []jobinfo.Node{{Name: "vm"}}, NodeOf: make([]int, len(here)), Apps: []int{len(here)}, FullUpTo: jobinfo.FullRanks}, nil
			}})
	}
	return s
}

func (r *replayedConversation) open(m pmixtest.Message) {
	ours, theirs := net.Pipe()
	go r.server.serveConn(pendingConn{conn: ours})
	c := &replayedConn{conn: theirs, welcome: make([]byte, 8), answers: make(map[uint32][]byte)}
	r.conns[m.Rank] = c
	theirs.Write(m.Hex)
	io.ReadFull(theirs, c.welcome)
	go c.receive()
}

func (c *replayedConn) receive() {
	for {
		var head [message.HeaderSize]byte
		if _, err := io.ReadFull(c.conn, head[:]); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[8:]))
		if _, err := io.ReadFull(c.conn, body); err != nil {
			return
		}
		c.mu.Lock()
		c.answers[binary.BigEndian.Uint32(head[4:])] = body
		c.mu.Unlock()
	}
}

func (c *replayedConn) send(t *testing.T, b []byte) {
	t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// compare compares our reply with the recorded one.
func (r *replayedConversation) compare(t *testing.T, asked, recorded pmixtest.Message) {
	c := r.conns[asked.Rank]
	c.mu.Lock()
	got, answered := c.answers[tagOf(asked)]
	c.mu.Unlock()
	if !answered {
		t.Errorf("%s: %s is not answered", asked.Rank, asked.Kind)
		return
	}
	if asked.Kind == "QUERY" { // the recorded server supports none
		return
	}
	theirs := shortText(asked.Kind, recorded.Body())
	if ours := shortText(asked.Kind, got); !slices.Equal(ours, theirs) {
		t.Errorf("%s, %s: %q, recorded %q", asked.Rank, asked.Kind, ours, theirs)
	}
}

// shortText decodes a reply to words that can be compared.
func shortText(command string, body []byte) (words []string) {
	r := bfrops.NewReader(body)
	if command == "REQ" {
		return []string{r.Namespace()}
	}
	words = append(words, message.Status(r.Status()).String())
	for r.More() {
		switch command {
		case "GET":
			b := bfrops.NewReader(r.Blob())
			p := b.Proc()
			words = append(words, p.Namespace)
			for b.More() {
				if key := b.Pair().Key; !strings.HasPrefix(key, "pmix.") {
					words = append(words, key)
				}
			}
		case "CONNECT":
			words = append(words, bfrops.NewReader(r.Blob()).Namespace())
		case "LOOKUP":
			for _, d := range r.Data() {
				words = append(words, d.Publisher.Namespace, d.Key, string(d.Value.Bytes))
			}
		default: // all numbers and names are as long as the recorded ones
			return append(words, fmt.Sprint(len(body), " bytes"))
		}
	}
	return words
}
