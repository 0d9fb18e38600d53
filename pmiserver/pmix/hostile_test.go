package pmix

import (
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// A hostileMessage is one of the test vectors: sent as the handshake, or after it, and the expected
// result.
type hostileMessage struct{ Where, What, Hex, Expect string }

func hostileMessages(t *testing.T) []hostileMessage {
	t.Helper()
	text, err := os.ReadFile("../../testdata/pmix/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Hostile []hostileMessage }
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors.Hostile) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	return vectors.Hostile
}

// Each hostile message has its expected result, and the other rank of the server is not disturbed.
func TestHostileVectors(t *testing.T) {
	for _, h := range hostileMessages(t) {
		synctest.Test(t, func(t *testing.T) {
			const space = "rs-21fa-1" // of the vectors, whose ranks are root's
			s, reports := newTestServer(t, 2, 2)
			s.UID = 0
			s.SocketOwner = func(conn net.Conn) (uint32, error) { return 0, nil }
			s.RemoveGroup("k")
			g := testGroup(2, 2, reports)
			g.Namespace = space
			s.AddGroup(g)
			other := connectRaw(t, s, handshake(space, 1, asRoot))
			if status := other.welcome(); status != message.Success {
				t.Fatalf("the other rank is welcomed by %v", status)
			}
			bytes, err := hex.DecodeString(h.Hex)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.outcome(t, s, space, bytes, reports); !strings.HasPrefix(h.Expect, got) {
				t.Errorf("%s: %s, want %s", h.What, got, h.Expect)
			}
			if status := other.status(fenceBody(procs(space, 1), false)); status != message.Success {
				t.Errorf("%s: the other rank is answered by %v", h.What, status)
			}
			s.Close()
		})
	}
}

func asRoot(h *message.Handshake) { h.UID, h.GID = 0, 0 }

// outcome sends a hostile message and returns the result in the words of the vectors.
func (h hostileMessage) outcome(t *testing.T, s *Server, space string, bytes []byte, reports chan reported) string {
	if h.Where == "handshake" {
		c := connectRaw(t, s, nil)
		go c.conn.Write(bytes) // it may be closed before all is read
		if status := c.welcome(); status != message.Failed {
			return "status " + number(status)
		}
		return "close"
	}
	c := connectRaw(t, s, handshake(space, 0, asRoot))
	c.welcome()
	c.write(bytes)
	if tag, answer := c.receive(); answer != nil {
		if tag != 101 {
			t.Errorf("%s: tag %d", h.What, tag)
		}
		return "status " + number(statusOf(answer))
	}
	synctest.Wait()
	for len(reports) > 0 {
		if what := <-reports; strings.HasPrefix(what.what, "junk") {
			return "rank talks junk"
		}
	}
	return "close"
}

func number(s message.Status) string { return strconv.Itoa(int(s)) }

// A rank that sends requests and never reads is disconnected when 64 MiB are queued for it. The other
// rank gets its replies meanwhile.
func TestRankThatDoesNotRead(t *testing.T) {
	s, reports := newTestServer(t, 2, 2)
	silent, other := initialized(t, s, 0), initialized(t, s, 1)
	silent.status(bfrops.AppendBuffer(bfrops.AppendByte(body(commit), 1), bfrops.AppendPair(nil, "key", bfrops.TextOf(strings.Repeat("x", 1<<20)))))
	const enough = 10_000 // requests of 1 MiB each, of which the sockets and the server hold far fewer
	for junk, sent := false, 0; !junk; sent++ {
		if sent == enough {
			t.Fatalf("after %d requests nothing is reported about the silent rank", sent)
		}
		silent.tag++
		request := getBody(testSpace, 0, "key")
		silent.conn.Write(append(message.AppendHeader(nil, silent.tag, len(request)), request...)) // in the end it is closed
		if got := other.status(getBody(testSpace, 0, "pmix.hname")); got != message.Success {
			t.Fatalf("the other rank is answered by %v", got)
		}
		for len(reports) > 0 {
			h := <-reports
			junk = junk || h.rank == 0 && strings.Contains(h.what, "it has not read 64 MiB of replies to its requests")
		}
	}
}
