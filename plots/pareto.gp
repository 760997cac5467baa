# The Pareto front of two objectives.
# tdp writes variables.gp (x_title, y_title) and pareto.dat, a line a plan.

set encoding utf8
face = 'DejaVu Sans'
ink = '#1A202C'
soft = '#5A6472'

set tics nomirror out scale 0.6 tc rgb soft
set border 3 lc rgb soft
set grid lt 1 lc rgb '#DDE1E6' lw 0.7 back
set offsets graph 0.05, graph 0.05, graph 0.05, graph 0.05
unset key
set xlabel x_title tc rgb soft noenhanced
set ylabel y_title tc rgb soft noenhanced

do for [format in 'svg png'] {
  if (format eq 'svg') {
    set terminal svg size 800, 520 font face.',12' background '#FFFFFF' enhanced
  } else {
    set terminal pngcairo size 1200, 780 font face.',16' background '#FFFFFF' enhanced
  }
  set output name.'.'.format
  set title 'Pareto front' tc rgb ink
  # no plan lies between two: the line shows what the better of them has at most
  plot 'pareto.dat' using 1:2 with steps lw 1.2 lc rgb '#9CC5E0', '' using 1:2 with points pt 7 ps 0.7 lc rgb '#0072B2'
}
