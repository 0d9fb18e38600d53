package sshx

import (
	"strings"
	"sync"
)

// A Tail keeps the last few KiB written to it, for messages.
// The zero value is ready.
type Tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

const tailMax = 4 << 10

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailMax):]...)
	if n := len(t.text) - tailMax; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

// String is what was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// Line is the last line that says something, for a one-line message.
func (t *Tail) Line() string {
	lines := strings.Split(strings.TrimSpace(t.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
