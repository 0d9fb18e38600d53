package stdio

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// Whatever is long or short, all bytes come in order, by one writev or many.
func TestChunks(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	var c chunks
	for i := range 3 * maxVector {
		short := bytes.Repeat([]byte{byte(i)}, i%5)
		long := bytes.Repeat([]byte{byte(i)}, longPiece+i%7)
		c.copy(short)
		c.borrow(long)
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
	if !c.empty() {
		t.Error("not forgotten")
	}
	c.copy([]byte("again"))
	if err := c.writeTo(w); err != nil {
		t.Error(err)
	}
	w.Close()
	if all := <-got; !bytes.Equal(all, append(want, "again"...)) {
		t.Errorf("%d bytes, want %d", len(all), len(want)+5)
	}
	c.borrow(make([]byte, longPiece))
	c.borrow(make([]byte, longPiece))
	if err := c.writeTo(w); err == nil {
		t.Error("wrote to a closed file")
	}
}
