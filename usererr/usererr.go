// Package usererr provides errors for users. Such an error says what failed, where and why, and what the user can
// do about it. The functions of the package call the methods Hint, Reasons, Reason and Detail of any error that has
// them.
package usererr

import "errors"

// An Error is an error with a message for the user, an optional remedy and an exit code.
type Error struct {
	Text   string // what failed, where and why; without a final period
	Remedy string // what the user can do; may be empty
	Code   int    // exit code of mpiexec, 1 to 255; 0: that of mpiexec's own failures
}

func (e *Error) Error() string { return e.Text }

// Hint returns what the user can do about the error, or "".
func (e *Error) Hint() string { return e.Remedy }

// Hint returns the hint of the first error in the chain of err that has a Hint method, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Reasons returns the reasons of the first error in the chain of err that has a Reasons method, or nil. Each reason
// is one line of a message.
func Reasons(err error) []string {
	var r interface{ Reasons() []string }
	if errors.As(err, &r) {
		return r.Reasons()
	}
	return nil
}

// Reason returns the result of an error's method Reason. This is the text without the host's name, so it is equal for
// hosts that fail for the same reason. If the error has no such method, Reason returns the whole text.
func Reason(err error) string {
	var r interface{ Reason() string }
	if errors.As(err, &r) {
		return r.Reason()
	}
	return err.Error()
}

// Detail returns the part of an error that Reason leaves out because it differs between hosts, or "" if there
// is none. Examples are an address, a fingerprint, and the last output of a program.
func Detail(err error) string {
	var d interface{ Detail() string }
	if errors.As(err, &d) {
		return d.Detail()
	}
	return ""
}

// Details records the first detail of several hosts that fail for the same reason, and whether their details differ.
// The zero value is empty.
type Details struct {
	host, first string
	differ      bool
}

// Add adds the detail of a host. It ignores an empty detail.
func (d *Details) Add(host, detail string) {
	switch {
	case detail == "":
	case d.first == "":
		d.host, d.first = host, detail
	case detail != d.first:
		d.differ = true
	}
}

// Merge adds the details that added records.
func (d *Details) Merge(added Details) {
	d.Add(added.host, added.first)
	d.differ = d.differ || added.differ
}

// String returns the first detail in parentheses after a blank. If the details of hosts differ, it also names
// the host of the first detail. String returns "" if there are no details.
func (d Details) String() string {
	switch {
	case d.first == "":
		return ""
	case d.differ:
		return " (" + d.host + ": " + d.first + ")"
	}
	return " (" + d.first + ")"
}

// Code returns the exit code of the first Error in the tree of err that has an exit code. It returns 0 if there is
// none.
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

// Split returns the errors that errors.Join has joined, in order. If err is nil, it returns a list whose only
// element is nil.
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
