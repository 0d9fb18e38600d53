package wire

// An Owner has the handlers for the messages that one part of a program handles. T is the type of the
// part. Handle adds handlers while the program is initialized.
type Owner[T any] struct {
	handlers [256]func(T, Message)
}

// Handle sets the handler for messages of type M.
func Handle[T any, M Message](o *Owner[T], handle func(T, M)) {
	o.handlers[NumberFor[M]()] = func(t T, m Message) { handle(t, m.(M)) }
}

// Owns reports whether there is a handler for m.
func (o *Owner[T]) Owns(m Message) bool { return o.handlers[NumberOf(m)] != nil }

// Handle calls the handler for m. There must be one.
func (o *Owner[T]) Handle(t T, m Message) { o.handlers[NumberOf(m)](t, m) }
