package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"remshell/wire"
	"remshell/wire/wiretest"
)

var update = flag.Bool("update", false, "write testdata/vectors.txt again")

// Each kind has a vector: its name, its frame in hex, and its fields as JSON.
func TestVectors(t *testing.T) {
	const file = "testdata/vectors.txt"
	if *update {
		var out strings.Builder
		for _, m := range messages(rand.New(rand.NewPCG(9, 10))) {
			if p, is := m.(*wire.Prepare); is {
				p.Settings = nil // a vector cannot say of which type they are
			}
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			decoded := wiretest.RowOf(m).New() // JSON does not tell all fields of values of a job
			json.Unmarshal(text, decoded)
			fmt.Fprintf(&out, "%s %x %s\n", wire.NameOf(m), []byte(wire.Encode(decoded)), text)
		}
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wanted := make(map[string]wire.Kind)
	for _, k := range wire.Kinds() {
		if k.Example == nil { // the vector of a feature's message is in the feature's test
			wanted[k.Name] = k
		}
	}
	for line := range strings.Lines(string(all)) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		k, known := wanted[words[0]]
		if !known {
			t.Errorf("%s is no kind, or there twice", words[0])
			continue
		}
		delete(wanted, k.Name)
		frame, err := hex.DecodeString(words[1])
		if err != nil {
			t.Fatal(err)
		}
		m := k.New()
		in := json.NewDecoder(strings.NewReader(words[2]))
		in.DisallowUnknownFields()
		if err := in.Decode(m); err != nil {
			t.Errorf("%s: %v: with -update its vector is made again", k.Name, err)
			continue
		}
		if got := wire.Encode(m); !bytes.Equal(got, frame) {
			t.Errorf("%s is %x, not %x: if it has changed, -update makes its vector again", k.Name, []byte(got), frame)
		}
		if got, err, _ := wiretest.Receive(frame, wiretest.AnySide); err != nil || !bytes.Equal(wire.Encode(got), frame) {
			t.Errorf("%s came as %.300v, %v", k.Name, got, err)
		}
	}
	for name := range wanted {
		t.Errorf("%s has no vector", name)
	}
}
