package transport

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"remshell/batch"
)

// A talker is a link to a host that sends a text and accepts everything.
type talker struct {
	text     *bytes.Reader
	received int
}

func (k *talker) Read(p []byte) (int, error)  { return k.text.Read(p) }
func (k *talker) Write(p []byte) (int, error) { k.received += len(p); return len(p), nil }
func (k *talker) Close() error                { return nil }
func (k *talker) ended(time.Duration) linkEnd { return linkEnd{exit: -1} }
func (k *talker) stderr() string              { return "" }
func (k *talker) verdict(int) Verdict {
	return Verdict{Kind: KindSession, Step: "session", Why: "it ended"}
}
func (k *talker) localAddr() net.Addr    { return nil }
func (k *talker) silence() time.Duration { return 0 }

// Whatever a host sends in place of the protocol, mpiexec finishes, keeps a limited amount of it, and sends
// the binary no more often than there are directories for it.
func FuzzDeliver(f *testing.F) {
	for _, text := range []string{"", "Welcome\n" + lineMarker + "shell\n" + lineMarker + "run cache\nhello", lineMarker + "need /tmp\n" + lineMarker + "run sent\nh",
		strings.Repeat(lineMarker+"need /tmp\n", 9), lineMarker + "fail machine Linux riscv64\n" + lineMarker + "fail machine Linux vax\n", lineMarker + "fail space x\n",
		lineMarker + "apart missing\n" + lineMarker + "apart failed\n", strings.Repeat("\x1e", 100), lineMarker + strings.Repeat("x", 2*maxLine), lineMarker + "run", "\x1e\n\x1eremshell\n"} {
		f.Add([]byte(text))
	}
	const size = 1000
	s := HelperBinary{Build: "build", Size: size, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(make([]byte, size))), nil }}
	s = s.Attaching(batch.Named("pbs").Attach, "1.x", func(string, string) {})
	f.Fuzz(func(t *testing.T, text []byte) {
		link := &talker{text: bytes.NewReader(text)}
		conn, err := s.deliverIn(context.Background(), link, time.Hour)
		if most := 2*len(s.deliveryScript(newFileTag())) + maxDirs*size + 100; link.received > most {
			t.Errorf("it was sent %d bytes, more than %d", link.received, most)
		}
		switch {
		case err == nil && (conn.Source() == "" || link.text.Len() == 0 && conn.in.Buffered() == 0):
			t.Errorf("a helper from %q, that has sent nothing", conn.Source())
		case err == nil && len(conn.Noise()) > maxNoise+maxLine:
			t.Errorf("%d bytes of noise", len(conn.Noise()))
		case err != nil && len(err.Error()) > 1000+maxLine:
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
