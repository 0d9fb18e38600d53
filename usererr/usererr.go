// Package usererr has errors for users: a text that says what failed, where and why, and what to do about
// it. Its functions call the methods Hint, Reasons, Reason and Detail of any error that has them.
package usererr

import "errors"

// An Error is an error for the user.
type Error struct {
	Text   string // what failed, where and why; without a final period
	Remedy string // what the user can do; may be empty
	Code   int    // exit code of mpiexec, 1 to 255; 0: that of mpiexec's own failures
}

func (e *Error) Error() string { return e.Text }

// Hint returns what the user can do, or "".
func (e *Error) Hint() string { return e.Remedy }

// Hint returns the hint of the first error in the chain that has a Hint method, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Reasons returns the reasons of the first error in the chain that has a Reasons method, or nil. Each
// reason is one line of a message.
func Reasons(err error) []string {
	var r interface{ Reasons() []string }
	if errors.As(err, &r) {
		return r.Reasons()
	}
	return nil
}

// Reason returns the result of the error's method Reason, which is the text without the host's name. So
// hosts that fail for the same reason have equal texts. For an error without that method it returns the
// whole text.
func Reason(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return err.Error()
}

// Detail returns the part of an error that Reason leaves out because it differs between hosts: an
// address, a fingerprint, the last output of a program. It returns "" if there is none.
func Detail(err error) string {
	var d interface{ Detail() string }
	if errors.As(err, &d) {
		return d.Detail()
	}
	return ""
}

// A Details has the details of hosts that fail for the same reason. The zero value has none.
type Details struct {
	host, first string
	differ      bool
}

// Add adds the detail of a host. An empty one is ignored.
func (d *Details) Add(host, detail string) {
	switch {
	case detail == "":
	case d.first == "":
		d.host, d.first = host, detail
	case detail != d.first:
		d.differ = true
	}
}

// Merge adds all details of another Details.
func (d *Details) Merge(added Details) {
	d.Add(added.host, added.first)
	d.differ = d.differ || added.differ
}

// String returns " (detail)" with the first detail. If the details differ, the name of its host comes
// before it. It returns "" if there are no details.
func (d Details) String() string {
	switch {
	case d.first == "":
		return ""
	case d.differ:
		return " (" + d.host + ": " + d.first + ")"
	}
	return " (" + d.first + ")"
}

// Code returns the exit code of the first Error in the tree of errors that has one, or 0.
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

// Split returns the errors that errors.Join has joined, in order. For nil it returns a list with one nil.
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
