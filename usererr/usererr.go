// Package usererr is what a user reads of what cannot be done: what, where and why in one
// clause, and what to do about it.
package usererr

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

// Reasons are those of the first error in a chain that has a list of them, a line each; nil: none has.
func Reasons(err error) []string {
	var r interface{ Reasons() []string }
	if errors.As(err, &r) {
		return r.Reasons()
	}
	return nil
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

// Detail is what an error's Reason leaves out, as it differs between hosts that fail alike: an address, a fingerprint,
// a program's last words. It is empty if there is nothing more.
func Detail(err error) string {
	var d interface{ Detail() string }
	if errors.As(err, &d) {
		return d.Detail()
	}
	return ""
}

// Details are those of hosts that fail alike. The zero value has none.
type Details struct {
	host, first string
	differ      bool
}

// Add counts a host's detail in; an empty one is ignored.
func (d *Details) Add(host, detail string) {
	switch {
	case detail == "":
	case d.first == "":
		d.host, d.first = host, detail
	case detail != d.first:
		d.differ = true
	}
}

// Merge counts the details of others in.
func (d *Details) Merge(others Details) {
	d.Add(others.host, others.first)
	d.differ = d.differ || others.differ
}

// String is " (detail)" if there is one, with the host that it is of where others have another.
func (d Details) String() string {
	switch {
	case d.first == "":
		return ""
	case d.differ:
		return " (" + d.host + ": " + d.first + ")"
	}
	return " (" + d.first + ")"
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

// Split takes a collection of errors apart: the faults in it, in their order. Nil has one, nil.
func Split(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range several.Unwrap() {
		all = append(all, Split(e)...)
	}
	return all
}
