# Training steps: a row a pipeline stage, communication as strips below it. tdp
# writes variables.gp (formats and, of sixels, pixels across; where texts and the legend's squares stand, in pixels from
# the top left), boxes.dat, numbers.dat and small.dat (times, and such pixels).

set encoding utf8
face = 'DejaVu Sans'
soft = '#5A6472'
across(pixels) = 1.0 * pixels / width
down(pixels) = 1 - 1.0 * pixels / height
font(size) = sprintf('%s,%d', face, size)
hex(color) = sprintf('#%06x', int(color))

set lmargin at screen across(left)
set rmargin at screen across(width - right)
set tmargin at screen down(top)
set bmargin at screen down(axis)

set xrange [0:end]
set yrange [axis:top]
set xtics nomirror out scale 0.6 tc rgb soft
set xlabel unit eq '' ? 'time' : sprintf('time (%s)', unit) tc rgb soft offset 0,0.4
unset ytics
unset key
set border 1 lc rgb '#A0A8B2' lw 1

do for [i = 1:words] {
  if (word_right[i]) {
    set label word[i] at screen across(word_x[i]), screen down(word_y[i]) right font font(word_size[i]) tc rgb hex(word_color[i])
  } else {
    set label word[i] at screen across(word_x[i]), screen down(word_y[i]) left font font(word_size[i]) tc rgb hex(word_color[i])
  }
}
do for [i = 1:squares] {
  set object i rectangle from screen across(square_x[i]), screen down(square_y[i] + 6) \
    to screen across(square_x[i] + 12), screen down(square_y[i] - 6) \
    fs solid noborder fc rgb int(square_color[i]) front
}

do for [format in formats] {
  if (format eq 'svg') {
    set terminal svg size width, height font face.',11' background '#FFFFFF' noenhanced
  }
  if (format eq 'six') {
    scale = pixels / width < 1.5 ? 1.0 * pixels / width : 1.5
    set terminal sixelgd truecolor size scale * width, scale * height font face.',11' fontscale scale * 0.82 \
      linewidth scale background '#FFFFFF' noenhanced
  }
  if (format eq 'png') {
    set terminal pngcairo size 1.5 * width, 1.5 * height font face.',11' fontscale 1.12 linewidth 1.5 noenhanced
  }
  set output name.'.'.format
  plot 'boxes.dat' using (($1 + $2) / 2):(($3 + $4) / 2):1:2:3:4:5 with boxxyerror fs solid noborder lc rgb variable, \
    'numbers.dat' using 1:2:3:4 with labels font face.',8' tc rgb variable, \
    'small.dat' using 1:2:3:4 with labels font face.',6.5' tc rgb variable
  unset output
}
