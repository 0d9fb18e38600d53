//go:build !linux

package pipe

import (
	"errors"
	"os"
)

// A Tank is nothing here: New makes none.
type Tank struct{}

// New fails.
func New(int) (*Tank, error) { return nil, errors.ErrUnsupported }

func (*Tank) Size() int                       { return 0 }
func (*Tank) Widen(int)                       {}
func (*Tank) Close()                          {}
func (*Tank) Fill(*os.File) (int, error)      { return 0, errors.ErrUnsupported }
func (*Tank) Share(*Tank, int) error          { return errors.ErrUnsupported }
func (*Tank) Pour(*os.File, int) (int, error) { return 0, errors.ErrUnsupported }

func (*Tank) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Refused reports nothing: nothing is asked for.
func Refused(error) bool { return false }

// Is reports that nothing is a pipe with which anything could be done.
func Is(*os.File) bool { return false }

// Widen does nothing.
func Widen(*os.File, int) int { return 0 }
