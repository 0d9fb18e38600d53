// Package fault is what a user reads of what cannot be done: what, where and why in one
// clause, and what to do about it.
package fault

import "errors"

// An Error is one fault.
type Error struct {
	Text   string // what, where, why; without a final period
	Remedy string // what to do; may be empty
	Code   int    // exit code that it stands for, 1 to 255; 0: that of our own failures
}

func (e *Error) Error() string { return e.Text }

// Hint is what to do about it.
func (e *Error) Hint() string { return e.Remedy }

// Hint is what the first error in a chain that has a hint says to do; empty: nothing.
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Reason is an error's text without the name of its host, so that equal reasons are equal
// texts.
func Reason(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return err.Error()
}

// Code is the exit code of the first fault in a tree of errors that has one; 0: none has.
func Code(err error) int {
	if e, ok := err.(*Error); ok && e.Code != 0 {
		return e.Code
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return Code(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if code := Code(one); code != 0 {
				return code
			}
		}
	}
	return 0
}

// Each takes a collection of errors apart: the faults in it, in their order. Nil has one, nil.
func Each(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range several.Unwrap() {
		all = append(all, Each(e)...)
	}
	return all
}
