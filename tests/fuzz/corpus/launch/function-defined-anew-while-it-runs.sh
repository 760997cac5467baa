f() { f() { x; }; y; }
f
--num-layers
