//go:build linux

package rpc

import (
	"io"
	"reflect"
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

// Each node reports a given-up fence once: before mpiexec reports it, when it does, or when the node enters the fence
// too late. Nothing of the fence is kept.
func TestFencesAreGivenUpOnce(t *testing.T) {
	id := fence.ID{Kind: fence.PMIxFence, Members: "k"}
	givenUp := &wire.Fenced{ID: id.String(), GivenUp: true}
	for what, test := range map[string]struct {
		play func(f *Fences, exchange func() error) error
		want []wire.Fence
	}{
		"it is ours to give up": {func(f *Fences, _ func() error) error {
			f.GiveUp(id, false)
			if f.Deliver(givenUp) {
				t.Error("the answer is news")
			}
			return nil
		}, []wire.Fence{{ID: id.String(), GivenUp: true}}},
		"others do": {func(f *Fences, _ func() error) error {
			if !f.Deliver(givenUp) {
				t.Error("it is no news")
			}
			f.GiveUp(id, false)
			return nil
		}, []wire.Fence{{ID: id.String(), GivenUp: true}}},
		"others do, and we come": {func(f *Fences, exchange func() error) error {
			f.Deliver(givenUp)
			return exchange()
		}, []wire.Fence{{ID: id.String(), GivenUp: true}}},
		"we are there": {func(f *Fences, exchange func() error) error {
			done := make(chan error)
			go func() { done <- exchange() }()
			synctest.Wait()
			f.GiveUp(id, true)
			if f.Deliver(givenUp) {
				t.Error("the answer is news")
			}
			return <-done
		}, []wire.Fence{{ID: id.String()}, {ID: id.String(), GivenUp: true, Joined: true}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sent []wire.Fence
			f := NewFences(func(m wire.Message) error { sent = append(sent, *m.(*wire.Fence)); return nil })
			err := test.play(f, func() error {
				_, err := f.Exchange(t.Context(), id, nil)
				return err
			})
			if err != nil && err != fence.ErrGivenUp || !reflect.DeepEqual(sent, test.want) || len(f.givenUpByMpiexec)+len(f.givenUpHere)+len(f.waiting) > 0 {
				t.Errorf("%s: %v, said %+v, kept %v %v %v", what, err, sent, f.givenUpByMpiexec, f.givenUpHere, f.waiting)
			}
		})
	}
}
