// Package pmixtest has helpers for tests of PMIx: it reads the recorded conversations of testdata/pmix, and has a
// client.
package pmixtest

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"remshell/tools/testbed"
)

// Vectors are the recorded messages of PMIx (pmix-wire.md 14).
type Vectors struct {
	Conversations []Conversation
	Hostile       []Hostile
	Info          struct{ Hex Bytes } `json:"mpirun_job_info"` // body of the reply of Debian 12's server
}

// A Conversation has the messages between the ranks of one program and the server, in the order of time.
type Conversation struct {
	ID       string // such as ring-4.2: the program, and the client's version
	Messages []Message
}

// A Message is one message with its header.
type Message struct {
	Rank string // GROUP:RANK
	Dir  string // C: sent by a client, S: sent by the server
	Kind string `json:"is"` // such as FENCE, or reply to FENCE
	Hex  Bytes
}

// Body returns the message without its header.
func (m Message) Body() []byte { return m.Hex[16:] }

// A Hostile is a message that the server must refuse.
type Hostile struct {
	Stage  string `json:"where"` // handshake or message
	What   string
	Hex    Bytes
	Expect string // expected result: close; status -50, ...; rank talks junk: ...
}

// Status returns the status that the server must reply. It returns false if Expect names none.
func (h Hostile) Status() (int, bool) {
	word, found := strings.CutPrefix(h.Expect, "status ")
	word, _, _ = strings.Cut(word, ",")
	n, err := strconv.Atoi(word)
	return n, found && err == nil
}

// Bytes are encoded as hexadecimal digits.
type Bytes []byte

// UnmarshalText decodes hexadecimal digits.
func (b *Bytes) UnmarshalText(text []byte) (err error) {
	*b, err = hex.DecodeString(string(text))
	return err
}

// repo is the root of the repository, found before a test changes its working directory.
var repo, repoErr = testbed.Repo()

// Read returns the recorded messages. It ends the test if they cannot be read.
func Read(t testing.TB) (v Vectors) {
	t.Helper()
	if repoErr != nil {
		t.Fatal(repoErr)
	}
	text, err := os.ReadFile(filepath.Join(repo, "testdata/pmix/vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Conversations) == 0 || len(v.Hostile) == 0 || len(v.Info.Hex) == 0 {
		t.Fatal("no recorded messages: this test reads them wrongly")
	}
	return v
}

// ClientMessages returns all messages of clients after the handshake.
func (v Vectors) ClientMessages() (all []Message) {
	for _, c := range v.Conversations {
		for _, m := range c.Messages {
			if m.Dir == "C" && m.Kind != "handshake" {
				all = append(all, m)
			}
		}
	}
	return all
}
