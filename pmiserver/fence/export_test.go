package fence

// OpenAndHeld returns the number of open fences, and the bytes that they count for.
func (h *Coordinator) OpenAndHeld() (open, held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open), h.heldBytes
}
