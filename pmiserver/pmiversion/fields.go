package pmiversion

import "strconv"

// A Field is one key=value of a request. Key and value are parts of the buffer that contains the request.
type Field struct{ Key, Value []byte }

// Fields are the fields of one request. The slice is reused for the next request.
type Fields []Field

// Find returns the value of the first field with the given key.
func (f Fields) Find(key string) (value []byte, found bool) {
	for i := range f {
		if string(f[i].Key) == key {
			return f[i].Value, true
		}
	}
	return nil, false
}

// Text returns the value of the first field with the given key, or nil if there is no such field.
func (f Fields) Text(key string) []byte {
	value, _ := f.Find(key)
	return value
}

// Number returns the value of a field as a decimal number, which may be negative. ok is false if the field is
// missing or is not a number.
func (f Fields) Number(key string) (n int, ok bool) {
	value, found := f.Find(key)
	if !found || len(value) == 0 || value[0] == '+' {
		return 0, false
	}
	n, err := strconv.Atoi(string(value))
	return n, err == nil
}
