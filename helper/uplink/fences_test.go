//go:build linux

package uplink

import (
	"io"
	"testing"
	"testing/synctest"

	"remshell/pmiserver/fence"
	"remshell/wire"
)

func TestFencesFailWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFences(func(wire.Message) error { return nil })
		failed := make(chan error)
		go func() {
			_, err := f.Exchange(t.Context(), fence.ID{Members: "k0"}, nil)
			failed <- err
		}()
		synctest.Wait()
		f.Fail(io.ErrClosedPipe)
		if err := <-failed; err == nil || err.Error() != io.ErrClosedPipe.Error() {
			t.Errorf("the fence under way: %v", err)
		}
		if _, err := f.Exchange(t.Context(), fence.ID{Members: "k0", Number: 1}, nil); err != io.ErrClosedPipe {
			t.Errorf("a later fence: %v", err)
		}
	})
}
