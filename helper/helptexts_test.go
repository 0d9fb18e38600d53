//go:build linux

package helper

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"remshell/pmiserver/pmix/message"
)

// A text that several ranks have to say is printed once, and after a while it is told how many more
// there were; texts about nothing in particular are all printed.
func TestHelpTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		h := newHelpTexts(func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) })
		abort, other := message.Topic{File: "help-mpi-api.txt", Name: "mpi-abort"}, message.Topic{File: "help-mpi-api.txt", Name: "other"}
		if !h.first(abort) || h.first(abort) || !h.first(other) || h.first(abort) || !h.first(message.Topic{}) || !h.first(message.Topic{}) {
			t.Error("a text is printed twice, or not at all")
		}
		time.Sleep(repeatsDelay)
		synctest.Wait()
		h.first(abort)
		h.close()
		h.close()
		want := "(mpi-abort: the same from 2 more ranks) (mpi-abort: the same from 1 more rank)"
		if got := strings.Join(told, " "); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
		time.Sleep(repeatsDelay)
	})
}
