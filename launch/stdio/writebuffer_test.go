package stdio

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// Pieces of any length are written in order, by one writev or several.
func TestWriteBuffer(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	var c writeBuffer
	for i := range 3 * maxIOV {
		short := bytes.Repeat([]byte{byte(i)}, i%5)
		long := bytes.Repeat([]byte{byte(i)}, minBorrow+i%7)
		c.addCopy(short)
		c.addBorrowed(long)
		want = append(append(want, short...), long...)
	}
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(r)
		got <- all
	}()
	if err := c.writeTo(w); err != nil {
		t.Error(err)
	}
	if !c.isEmpty() {
		t.Error("not forgotten")
	}
	c.addCopy([]byte("again"))
	if err := c.writeTo(w); err != nil {
		t.Error(err)
	}
	w.Close()
	if all := <-got; !bytes.Equal(all, append(want, "again"...)) {
		t.Errorf("%d bytes, want %d", len(all), len(want)+5)
	}
	c.addBorrowed(make([]byte, minBorrow))
	c.addBorrowed(make([]byte, minBorrow))
	if err := c.writeTo(w); err == nil {
		t.Error("wrote to a closed file")
	}
}
